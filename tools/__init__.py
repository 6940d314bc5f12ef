"""The command lines `daybook` and `journal`, and the demo. The only room that prints for people."""
