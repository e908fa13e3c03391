"""What a GPU is and what is wrong with it: data sheets, ceilings, error numbers, conditions.

May import the catalogue. `conditions` is the one table of what is wrong with a GPU: HEALTH,
findings, the map and `--exit-status` read it.
"""
