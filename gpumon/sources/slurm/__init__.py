"""Slurm by its commands or by slurmrestd, and probes on the nodes of its jobs.

Sees `probes`. `poll.target` is the entrance.
"""
