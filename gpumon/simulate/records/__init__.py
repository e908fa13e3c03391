"""What a simulated Slurm reports of its jobs, nodes and partitions.

Sees `cluster`. `slurm_queue` and `ended` are the entrances.
"""
