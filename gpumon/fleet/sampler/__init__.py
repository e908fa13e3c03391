"""The one loop: collects frames, joins them, publishes a tick.

Sees `join`; the past, the ledger and detection are handed in as `protocols`.
"""
