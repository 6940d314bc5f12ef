"""Scratch data and its broker: the folder of a drill, and the process that serves there.
there.

It must never touch the data, network or users of the operator. Begin with `broker`.

Modules:

- `broker`: The broker process of a drill: started on scratch data, killed with all its processes,
  started again. Ends only processes that it started.
- `copies`: Copies of a data directory, for the scratch brokers of a drill.
- `server`: The process of a drill's broker: the broker of this installation with the operator's
  configuration, on scratch data.
- `startable`: Whether a broker would start on a data directory as it is: found out without touching
  it.
- `workplace`: The folder in which a drill works, and the other files of its broker there.
"""
