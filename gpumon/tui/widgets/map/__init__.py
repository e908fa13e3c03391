"""The maps of fleet and ranks: they draw the lines in sight, and of them what changed.

Sees `text`. `fleet_map` and `rank_chart` are the entrances.
"""
