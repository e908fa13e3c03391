"""Detection as the monitor sees it: hand in a tick, collect findings with their life.

Sees the worker. `engine` is the entrance.
"""
