"""One file per view.

Sees widgets and actions. Only `open` knows them all: they ask for one another by `base.contract`.
"""
