"""Names of addresses and queues, and patterns over names.

It answers which names are right, which words they have, and which patterns match a name. It must
never know what a name stands for. Begin with `names`, then `patterns`.

Modules:

- `host_names`: Which virtual host a client gets by the name that it connects to (ADR 58).
- `matches`: Which matches cover an address, the most specific first: of address settings and
  permissions.
- `names`: The rule for names of addresses and queues, the same for every way to create them.
- `patterns`: Patterns over names, and a trie that finds the patterns that match a name (ADR 35).
- `syntax`: The characters of names and patterns: what divides words, and what stands for words.
- `words`: Words of patterns that match part of a word: `I*`, `A*B`, and regular expressions in
  braces.
"""
