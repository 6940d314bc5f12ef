"""The machine beside a broker: busy neighbours, signals, clocks and preloaded libraries.

It must never know what is measured. Begin with `neighbours`.

Modules:

- `fast_clock`: A wall clock that runs faster, for the processes of a broker: a library below them.
- `interrupts`: SIGTERM and SIGINT as an exception that never comes while a process starts or stops.
- `neighbours`: Busy neighbours: processes that spin beside a broker while it is measured.
- `preload`: Preloaded libraries (LD_PRELOAD), compiled from a C file beside the module that uses
  them.
"""
