"""Rows as a whole: the table of `--once`, exports, what a row names.

Sees `tables` and `filter`.
"""
