"""The way of a message to its consumer: kinds of queues, groups, redelivery, dead letters,
duplicates, credit and browsing decide to whom it goes, in which order and how often.
"""
