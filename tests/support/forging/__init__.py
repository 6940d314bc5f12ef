"""Mistakes planted in journals whose checksums are right, each with the findings that an audit must
have: the forgeries show how good the audit is.
"""
