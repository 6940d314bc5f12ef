"""Parts of the broker alone, in one process, without sockets and without a disk.

They must never know another broker. Each module is run as `python -m bench.engine.NAME`.
"""
