"""The process of a broker: logs, signals, descriptors, memory and disk of the machine.

It must never know the hub. Begin with `logs`, then `supervision`.

Modules:

- `companion`: A program that runs beside the broker, which starts it and ends it.
- `descriptors`: The file descriptors of the broker: how many there are, and how many are reserved
  for files.
- `disk_space`: How full the disk of the data directory is, and whether that is too full.
- `guard`: The guard: a thread that handles the signals of a broker even when its event loop hangs.
- `heap`: Gives freed memory back to the system.
- `in_turns`: Doing work on many objects with turns of the event loop between its slices
  (`server.process.slices`).
- `logs`: Structured logs on standard error: for people on a terminal, JSON lines otherwise.
- `machine_memory`: The available memory: that of the machine, or less if a control group has a
  lower limit.
- `ordered_lists`: Pages of very many objects, searched and in order, in slices, and orders that are
  kept for clients that take one page after the other.
- `pulse`: How often the periodic work of a broker is done: less often when the broker is idle.
- `ranks`: Choosing a page of many objects in order, without sorting all of them, and sorting them
  in slices.
- `seen`: Those of very many objects that somebody may see: found in slices, since each costs a
  question to the rules, and kept for a while.
- `service_manager`: Notifies systemd that the broker is ready, stopping, alive (`sd_notify(3)`,
  `Type=notify`).
- `slices`: Work on many objects in slices, between which a running broker has turns.
- `supervision`: Supervision of background work, so that no failure of it goes unnoticed.
- `tally`: Limits reports that strangers can cause: the first of a kind is reported, others are
  counted.
"""
