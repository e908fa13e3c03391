"""A training step, a server's request, their phases, and what a board does meanwhile.

Knows no node and no job. Begin with `phase`, then `program`.
"""
