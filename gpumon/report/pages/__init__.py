"""What the pages about one thing show: a GPU, a node, a finding, an ended job.

Sees all other rooms of `report`.
"""
