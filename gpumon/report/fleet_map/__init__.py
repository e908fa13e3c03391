"""The map of the whole fleet: cells, groups, marks, layout, legend.

Sees `tables` for what a cell shows. `map` is the entrance.
"""
