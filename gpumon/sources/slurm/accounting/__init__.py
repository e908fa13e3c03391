"""Jobs that have ended and what steps have used, asked on demand by sacct and sstat.

`accounting` is the thread that asks, by `commands` or by slurmrestd.
"""
