"""Journals, indexes and archives on disk: these modules make them without a broker, and read them
back without the broker's checks.
"""
