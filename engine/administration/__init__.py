"""Commands of administrators, of the configuration, and of retention.

It must never know how a request reached the broker. Begin with `administration`.

Modules:

- `administration`: Deciding on the commands of administrators and of the configuration.
- `carried_content`: Recording the work of retention: content written again, and segments removed.
- `group_resets`: Deciding that consumers give up message groups because an administrator asked for
  it.
- `message_moves`: Deciding what administrators do with messages of a queue: move, copy, retry,
  expire, remove.
- `move_targets`: Whether messages may be moved into a queue: asked for every move of an
  administrator, by whatever command, about the real target.
- `retention_commands`: Commands of retention: content is written again, and segments leave.
- `settings_changes`: Deciding on changes of address settings, by the configuration and by
  administrators.
- `signatures`: Recording what a notary signed of the history (ADR 66).
- `unlisted`: Deciding what becomes of names that the configuration listed once and lists no more
  (ADR 51).
- `updates`: Deciding about changes of queues and addresses that exist.
"""
