"""Settings: what operators configure for names, and the rules that follow from these values alone.

It must never know an address or a queue, only names. Begin with `settings`, then `setting_keys`.

Modules:

- `distributions`: The distributions of addresses: for each name, the entry whose prefix or pattern
  fits it best.
- `expiry_rules`: When a message expires, by what its sender says and the settings of its address
  (seed on expiry, section 2).
- `known_names`: Answers about names, remembered up to a number of names and of characters: peers
  choose names.
- `lifetime_keys`: The keys of address settings about names: how they come into being by use, and
  how they go.
- `link_routes`: The table of link routes: to which containers a link is passed on, by its address
  and direction.
- `pattern_bits`: Many patterns compared with a long name at once: each place in each pattern is a
  bit of a number.
- `permissions`: Permissions: the actions of a user at an address, by its roles and the rule of the
  address (ADR 55).
- `queue_defaults`: The attributes that a queue has by the settings of its address unless its
  definition has them.
- `redelivery`: How long a message waits after a failed delivery (seed on redelivery, "Delayed
  Redelivery").
- `retroactive_keys`: The keys of address settings about the history that an address keeps for
  queues to come.
- `setting_key`: A key of address settings, and checks of values that several keys share.
- `setting_keys`: The keys of address settings: name, type, default, meaning, and what values are
  right.
- `settings`: Address settings: the merge of matches by specificity, and the origin of each value.
"""
