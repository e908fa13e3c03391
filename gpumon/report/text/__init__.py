"""Cells, tones, widths and units: how a value becomes text.

Sees the model only. `cells` is the entrance.
"""
