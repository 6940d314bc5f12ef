"""A block: the rows and byte strings of one batch, as bytes.

It must never know files. Begin with `format`, then `block`.

Modules:

- `batch`: A batch: the rows that become one block, and the byte strings that belong to them.
- `block`: A block: the rows and byte strings of one batch, as two compressed frames behind a
  header.
- `format`: Every byte of the journal on disk. The only module that knows an offset.
- `layout`: The layout of a row: the journal's whole knowledge of its content.
- `leading_rows`: The first columns of many blocks: decompresses only the needed parts, all in one
  call.
- `rows_frame`: The rows frame of a block: one zstd frame whose first columns can be decompressed
  alone.
- `summaries`: Summaries of many blocks, for checking a journal: the same as `BlockCodec.summarise`,
  in numpy.
- `trust`: The limit on the decompressed size of a block from an untrusted source.
- `written`: Writes of one process to the journal, for the copy of the journal in another process
  (ADR 41).
"""
