"""Recordings: the format, reading and writing it, rolling folders, labels, and the replayed source.

Sees what decodes a probe's line. `source` and `write` are the entrances.
"""
