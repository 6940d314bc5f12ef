"""Catalogs: files that say where in a run of blocks something is (ADR 64).

It must never know the queries. Begin with `catalog_file`.

Modules:

- `catalog_file`: The file of a catalog: tables of sorted pairs that say where in a run of blocks
  something is (ADR 64).
- `catalog_keeper`: The catalogs of a data directory, for the owner of its index: makes them when
  there is time (ADR 64).
- `catalog_keys`: The keys of catalogs, which stand for headers, bodies and ids (ADR 64).
- `catalog_making`: Making catalogs: reads blocks, and collects their keys (ADR 64).
"""
