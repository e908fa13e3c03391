"""One file for each view that lists: jobs, nodes, GPUs, findings, the fleet's map.

Sees `base`; another view is asked for by what it shows.
"""
