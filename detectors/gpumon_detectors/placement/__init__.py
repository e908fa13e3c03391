"""Ranks that run, or talk, in the wrong place of their node: CPUs, NUMA nodes, network ports.

Other rooms may ask `seats` where a rank runs, and whether it gets the CPUs that its peers get, and
`exchange` what links its job exchanges over and how much of its time that may take.
"""
