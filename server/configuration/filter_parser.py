"""Loading the parser of filters beside the event loop, so that the first filter is as quick as all
others: importing it and making its tables takes more than a tenth of a second.

Must never know a filter.
"""

from threading import Thread

from daybook.engine.filters.compiling import compile_filter


def load() -> None:
    """Begin to load it, once for the whole process."""
    Thread(target=_load, name="filter parser", daemon=True).start()


def _load() -> None:
    for text in ("a = 1", "hyphenated_props:a = 1"):
        compile_filter(text, str)
