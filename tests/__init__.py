"""Tests of Daybook; a package so that no other distribution's `tests` can be taken for it."""
