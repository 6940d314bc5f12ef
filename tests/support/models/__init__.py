"""A second, plain and slow statement of the broker's rules, in the words of the documentation;
tests compare the broker with it.
"""
