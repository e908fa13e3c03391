"""Time that is not now: recordings played, stored ticks, a past that is played quickly.

Sees the sampler, the ledger and the join. `replay` is the feed of a recording, `remembered_ticks`
what pausing shows.
"""
