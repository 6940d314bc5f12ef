"""Segments: files of blocks that follow each other; reading, checking and repairing them.

It must never know the writer. Begin with `segment`, then `reader`.

Modules:

- `reader`: Reading blocks from any LSN on, also while another process appends.
- `repair`: Judging the newest segment at open: where the journal ends, and whether a tail was torn.
- `segment`: Segments: opening, reading and checking them.
- `segment_check`: Checks one segment by itself: crcs, the hash chain in it, LSNs, its footer
  against its blocks.
- `sound_blocks`: Everything sound in a damaged journal: blocks in the order of their events, and
  the gaps.
- `stat`: Sizes, ratios and counts of a journal, segment by segment, as data.
- `succession`: Checks that the segments of a journal follow each other, so that none between them
  is missing.
- `verify`: Checks a whole journal: crcs, the hash chain across segments, LSNs, footers against
  blocks.
"""
