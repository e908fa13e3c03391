"""The ranks of a job, over time as strips and at one instant as a map.

Sees `fleet_map`, whose marks and lines it draws with. `map` and `strips` are the entrances.
"""
