"""Runs Slurm's commands: a neutral environment, a deadline, answers shared among a user's gpumons.

Sees `text` and `json`. `commands` is the entrance.
"""
