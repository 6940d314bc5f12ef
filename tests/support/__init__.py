"""Helpers of several folders. The modules here are those that most tests begin with: brokers
without disk and network (`world`), brokers as processes (`process`, `nursery`), and data
directories (`histories`).
"""
