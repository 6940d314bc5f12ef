"""The console over real processes, and in a real browser."""
