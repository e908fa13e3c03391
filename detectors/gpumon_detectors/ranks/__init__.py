"""Ranks that wait for one another, and which of them the others wait for.

Sees `evidence`. `peers` says who is compared with whom, `pauses` and `work_windows` when a rank
waits; begin with `straggler`.
"""
