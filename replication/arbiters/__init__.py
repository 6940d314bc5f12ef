"""What decides who leads: a lease, kept outside of the cluster.

Modules:

- `arbiter`: The port to what decides who leads.
- `etcd`: The lease in etcd: a key that the node which leads creates, and that ends with a lease of
  etcd.
- `etcd_gateway`: Calls to the HTTP gateway of etcd, version 3.4 or newer.
- `etcd_values`: Requests to the gateway of etcd, and its answers, as JSON.
- `lease_file`: A lease in a file, for several nodes on one machine, and for tests.
"""
