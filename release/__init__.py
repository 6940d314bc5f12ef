"""The contents of a release: the lock of the dependencies, their licences, and the artifacts.

lockfile         reads requirements.lock, and selects what a set of extras and groups needs
installation     installs the locked dependencies of such a set; used by the Makefile
resolution       makes requirements.lock anew
licences         the table of docs/licences.md
components       the bill of materials (CycloneDX)
changelog        the sections of CHANGELOG.md
manuals          manual pages and completions of the commands
artifacts        what is published: wheels, sources, manuals, sums
site             the site of the documentation
vulnerabilities  asks whether locked versions have known vulnerabilities

`lockfile` and `installation` run before anything is installed: they use the standard library alone.
None of this is part of the broker.
"""
