"""Laws of bytes on disk: every write is read back, everything that was reported durable is there
after any power cut, and any flipped bit is found.
"""
