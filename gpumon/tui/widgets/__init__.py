"""What screens are made of.

Sees the look. `table` is the one table, `map` draws cells, `text` lines.
"""
