"""Each source turns one target into frames. The only floor that may block.

Sees simulation and below. `source` is the contract, `address` reads a target, `open` makes its
source.
"""
