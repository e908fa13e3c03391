"""One file for each view of one thing: a job, its ranks, a GPU, a node, its curves.

Sees `base`; another view is asked for by what it shows.
"""
