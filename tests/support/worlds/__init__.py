"""Special worlds for `tests.support.world`: other hosts, full addresses, a second format of
headers, and stories in which everything meets.
"""
