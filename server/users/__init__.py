"""Users: their logins, and records of refusals.

It must never know connections. Begin with `users`, then `logins`.

Modules:

- `denials`: Records refusals for want of a permission in the journal, within limits.
- `failures`: Failed logins of each address, and how long its next login waits.
- `login_refusals`: Records refused logins in the journal, with a limit on their number and content.
- `logins`: Logins: accepted at once, queued for hashing the passcode, or refused.
- `passcode_hashes`: Hashes of passcodes: Argon2 for new ones, and PBKDF2 as other brokers have made
  them.
- `pools`: The pools that the server guards: those of connections that no user has, and of records.
- `sasl`: Mechanisms of SASL (RFC 4422): those that a caller may use, and the steps of its login.
- `saslprep`: SASLprep: one form for the spellings of a login or a passcode (RFC 4013).
- `scram`: SCRAM-SHA-256, on the side of the server (RFC 5802, RFC 7677): verifiers and messages.
- `users`: The users: logins with salted, slow hashes of their passcodes, and their roles, in a
  file.
- `users_file`: The users file: a record for each user, read and replaced as a whole.
"""
