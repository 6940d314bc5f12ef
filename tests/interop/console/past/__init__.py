"""Pages of the past, beside the commands that show the same."""
