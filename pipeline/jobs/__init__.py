"""Jobs over history; each is a function of an engine, and a command of `daybook pipeline`."""
