"""The wide world: every class that can be labelled, and as often what resembles it and is well.

Sees `cluster` and `physics`. `mix` is the entrance.
"""
