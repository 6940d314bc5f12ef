"""Filters, also called selectors: conditions on messages in the syntax of SQL-92 (JMS 2.0, 3.8.1).

`compiling.compile_filter` turns the text of a filter into a function of a message, once; asking it
costs about as much as reading the headers that it names. A filter is true, false or unknown of a
message, and lets it pass only when it is true.

- `grammar`: the syntax, and the errors of texts that do not follow it.
- `nodes`: the parts of a parsed filter.
- `compiling`: from these parts to functions.
- `comparing`: comparison and arithmetic of values, with unknown ones.
- `naming`: the meaning of the names in a filter.
- `liking`: patterns of LIKE.

Modules:

- `comparing`: Comparison and arithmetic of the values in filters; None is SQL's unknown.
- `compiling`: From the parts of a filter to functions of a message. Must never know the syntax.
- `costs`: The cost of a filter, estimated from its parts. Must never know how it is asked.
- `grammar`: The syntax of filters, and errors for texts that do not follow it.
- `liking`: Patterns of LIKE: `%` for any characters, `_` for one. Must never know a message.
- `naming`: The meaning of names in filters: properties of the application, and facts about the
  message.
- `nodes`: The parts of a parsed filter. Must never know the syntax, or what the parts compute.
"""
