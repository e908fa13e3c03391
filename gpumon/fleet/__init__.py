"""The fleet over time: joins, history, and the one loop that samples.

Sees sources and below. `sampler` is that loop, `join` makes one picture, `history` and `ledger`
keep the past, `replay` plays it.
"""
