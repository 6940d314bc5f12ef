"""The simulated clients: their actions, the queues that they use, and the ledger of their
knowledge.
"""
