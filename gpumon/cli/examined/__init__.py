"""What `gpumon doctor` looks at: the driver, permissions, Slurm, targets, and what they will take.

Sees the options and the exits beside this folder; `check` is one line of the answer.
"""
