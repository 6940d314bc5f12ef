"""Laws of settings."""
