"""Rows as a whole: the table of `--once`, exports, what a row names.

Sees `tables` and `filter`. `once` is the table of `--once`, `filter_tables` what a filter is bound
to.
"""
