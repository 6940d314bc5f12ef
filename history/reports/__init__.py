"""Reports of verifications, audits and drills: kept in the data directory, few and small (ADR 113).

The command line and the console write and read them by these functions. A report is derived: it
has the findings, and nothing depends on it. Must never know how a report is shown.

Modules:

- `integrity`: The integrity of a data directory as far as it is known without a check: its reports,
  its newest signature, and the parts that an earlier verification found sound.
- `marks`: The marks of a time line: starts and stops of the broker, crashes, settings, requests of
  administrators, and the verifications, audits and drills of which a report is kept.
- `report`: The structs of a report, which are also its JSON. Fields are only ever added.
- `report_files`: The files of reports in a data directory: a bounded number, each with its hash.
"""
