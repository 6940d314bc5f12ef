"""`python -m daybook`: the command line `daybook`, without its script."""

from daybook.tools.entry import daybook

if __name__ == "__main__":
    daybook()
