"""Tests of the sources and pages themselves: rules of the code, pages drawn from it, the truth of
other pages, and the parts of a release.
"""
