"""Watches GPUs and says who wastes them, why, and what to do next.

Each folder is a floor that imports only those below it; `cli` is the highest, `base` the lowest.
`__main__` is the entrance.
"""

__version__ = "0.1.0"
