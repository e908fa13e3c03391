"""What screens are made of.

Sees `look`. `table` is the one table, `map` draws cells, `text` lines.
"""
