"""The columns of every table, a module for each kind of row.

Sees `wording`, `filter` and `facts`.
"""
