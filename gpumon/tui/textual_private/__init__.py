"""Everything that touches private names of textual or of the terminal.

Each replaces one thing, and leaves textual's own in place where its name is gone.
"""
