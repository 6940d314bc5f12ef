"""Mishaps of a run: power cuts, hanging processes, full disks, damage, and mistakes that tests
plant.
"""
