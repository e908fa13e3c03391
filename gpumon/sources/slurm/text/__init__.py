"""What Slurm's commands print, as records; pure functions.

Also holds the grammars that text and JSON share: gres, times, output patterns. Sees the model;
`records` cuts what a command prints, `jobs` and `nodes` read it.
"""
