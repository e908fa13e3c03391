"""Detectors: what their authors see, and the process of their own that they run in.

Sees the fleet and below. `contract` is what a detector is, `view` what it sees; `engine` is
detection as the monitor knows it.
"""
