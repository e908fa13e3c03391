"""Kinds of jobs, a short function each: what goes wrong, and what only resembles it.

Sees `story` and `signals`. `steps` is the training step that most build on.
"""
