"""Curves in braille, and which curves a GPU, a node, a job or a rank has.

Only `plot` and `roofline` import numpy, when the first curve is drawn.
"""
