"""What the node's kernel reports: host, processes, cgroups, ports, mounts, its log.

Reads files below /proc and /sys, never a network mount. `host` is read first, `files` opens each.
"""
