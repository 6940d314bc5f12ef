"""Fuzzing guided by coverage: inputs that reach new branches are kept, and changed further.

`frames` feeds one session, `sessions` a whole broker without disk and network. `search` looks for
new inputs, with atheris (libFuzzer); `corpus/` holds what it found, which a test replays.
"""
