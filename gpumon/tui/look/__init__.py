"""Colours, themes and what the user chose; only `themes` and `map_theme` name colours.

Sees nothing else of `tui`.
"""
