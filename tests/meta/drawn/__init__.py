"""Parts of pages that are drawn from the code (`make map`), each by a module that can also be run
alone; the tests fail when a page differs from the code.
"""
