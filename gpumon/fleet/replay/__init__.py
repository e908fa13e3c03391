"""Time that is not now: recordings played, kept ticks, a past that is lived through quickly.

Sees the sampler, the ledger and the join. `replay` is the feed of a recording, `kept_ticks` what
pausing shows.
"""
