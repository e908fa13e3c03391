"""The filter language: parsed, bound to columns, applied to rows.

`parser` reads it, `bind` gives it the columns of a table.
"""
