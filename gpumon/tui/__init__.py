"""The terminal: the only floor that imports textual."""
