"""Cells, tones, widths and units: how a value becomes text, and a text an instant.

Sees the model only. `cells` is the entrance.
"""
