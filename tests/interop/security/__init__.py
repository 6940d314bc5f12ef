"""Rights of users: logins, certificates, permissions, administration over the network, and headers
that only the broker may write.
"""
