"""The rooms of the console, without a process."""
