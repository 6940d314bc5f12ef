"""Standbys: other machines with the same journal, byte for byte (ADR 118).

One node of a cluster leads; the others follow. A lease, which an arbiter outside grants, says who
leads, and gives each leadership an epoch. What decides has no socket, clock or task: what arrives
comes in by calls, what is to be sent goes out as values; `runner` gives it the rest.

Modules:

- `arbiters`: What decides who leads: a lease, kept outside of the cluster.
- `base_files`: The base of a journal on its way to a node that lacks removed segments (ADR 118).
- `brokers`: The broker's process of a node: one that waits, and one that leads.
- `claims`: The name of a node, as the arbiter knows who uses it: two nodes of one name would count
  as one.
- `epochs`: Which epoch each part of a journal is of, and up to where two journals agree.
- `following`: Answering leaders and candidates: promises, and blocks that are written.
- `gathering`: Whether a candidate has everything that was confirmed.
- `handing_over`: The end of a lead that is to cost a moment: another node leads next, which has
  everything.
- `in_sync`: Which followers keep up, and which ones must have what is confirmed.
- `lags`: How far behind a leader somebody is: in events, in bytes of the journal, and in time.
- `lanes`: Lanes: small blocks go from the leader's broker to followers without a detour (ADR 119).
- `leading`: What a node and the broker that it started say to each other.
- `links`: Connections between nodes: dialled by one that leads or stands, accepted by all.
- `messages`: What nodes say: one that leads or stands speaks, over a connection of its own, others
  answer.
- `node`: One node of a cluster: when it stands for the lead, leads, and stops.
- `quorum`: How much of the journal counts as durable: what enough nodes have on their disks.
- `record`: What a node may never forget: which epoch it promised to whom, and the epochs of its
  journal.
- `replica_files`: The journal of a node that follows: opened, continued, cut where the leader's
  goes another way.
- `runner`: A node as a process: gives the core a clock, sockets, files, an arbiter and a broker.
- `shipping`: Giving one follower what it lacks: from the place up to which both journals agree.
- `standby_index`: The index of a node that follows: as new as what is confirmed, so that a leader
  starts at once.
- `standby_retention`: Retention of a node that follows: what has left the leader leaves here too
  (ADR 118).
- `wire`: Frames: what nodes say, as bytes of a connection.
"""
