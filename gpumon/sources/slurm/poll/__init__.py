"""The queue at its period, however it is asked, and the way to each node of the jobs in view.

`target` is the Slurm source as a whole.
"""
