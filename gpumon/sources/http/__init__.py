"""What everything that asks over HTTP shares: exchanges within bounds, and the words of failures.

`exchange` makes one, `loop` is what it runs in, `failures` says why there is no answer,
`secret_file` reads what somebody is let in by, `outage` says when what was told is over. Knows none
of those who are asked.
"""
