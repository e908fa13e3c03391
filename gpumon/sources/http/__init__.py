"""What everything that asks over HTTP shares: exchanges within bounds, and the words of failures.

`exchange` makes one, `loop` is what it runs in, `failures` says why there is no answer,
`secret_file` reads a token or a password, `outage` says when an error has ended. Knows none of
those who are asked.
"""
