"""The one process that imports plugins: what it knows, whom it asks, what it believes.

Sees the contract, the view and `wire`. `supervisor` starts it and leaves nothing of it behind,
`worker` is its main program.
"""
