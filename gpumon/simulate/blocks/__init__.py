"""What the simulated nodes report, a module for each block of a frame.

Sees all other rooms of `simulate`. `frames` is the entrance.
"""
