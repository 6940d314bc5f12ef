"""The pages that people write are true: links, names, formats and metrics exist, examples run, and
the English stays plain.
"""
