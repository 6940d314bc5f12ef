"""Laws of sessions: they say the same however their bytes are cut and whenever they are blocked."""
