"""The simulated cluster: who runs what where and when, and what is broken.

Sees `physics`. `sim_cluster` is the entrance.
"""
