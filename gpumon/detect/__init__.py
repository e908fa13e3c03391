"""Detectors: what their authors see, and the process of their own that they run in."""
