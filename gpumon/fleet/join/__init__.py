"""Jobs, processes, GPUs and ranks joined into one tick.

Sees records only. `join` is the entrance; `membership` keeps who held which GPU when.
"""
