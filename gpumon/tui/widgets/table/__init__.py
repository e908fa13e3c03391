"""The one table: `grid` draws it, the others arrange, lay out and paint its rows.

Sees `text`.
"""
