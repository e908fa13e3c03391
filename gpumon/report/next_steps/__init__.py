"""What to type next about something: commands, the road to its node, and what a change shows.

Sees the model and how a node is reached. `commands` is the entrance.
"""
