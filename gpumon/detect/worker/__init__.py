"""The one process that imports plugins: what it knows, whom it asks, what it believes.

Sees the contract, the view and `wire`. `worker` is its main program.
"""
