"""Slurm's JSON as records, of every version by its shape; pure functions.

Sees `text`, whose grammars the values follow. `jobs` and `nodes` are the entrances.
"""
