"""What a tick says once it is ordered: by row, group, node, rank, room that waits.

Sees `text`. `tick_index` is the entrance; nothing here words a verdict.
"""
