"""What the node's kernel tells: host, processes, cgroups, ports, mounts, its log.

Reads files below /proc and /sys, never a network mount; `users` asks the node for the names of
users besides. `surroundings` is the entrance, on a thread of its own.
"""
