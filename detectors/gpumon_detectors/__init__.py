"""The built-in detectors: registered and treated as everyone else's.

Imports `gpumon.plugin` alone. A room for each kind of waste; `evidence` is what they share.
"""
