"""What the NVML binding reports about GPUs, their links, partitions and processes.

Only the one thread that enters the driver runs this. `sweep` is the entrance: one round of readings
by tiers; `driver` makes each call and notes it.
"""
