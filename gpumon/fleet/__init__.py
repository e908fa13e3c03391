"""The fleet over time: joins, history, and the one loop that samples.

Sees sources and below. `sampler` is that loop, `join` makes one tick, `history` and `ledger` hold
the past, `replay` plays it.
"""
