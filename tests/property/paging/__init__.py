"""Laws of the index: it is the fold of the journal however that was cut, at any moment and after
any retention, and paging is invisible.
"""
