"""Laws of readers of history: the audit gives no false alarm and finds planted mistakes, and
catalogs find all that a reader of everything finds.
"""
