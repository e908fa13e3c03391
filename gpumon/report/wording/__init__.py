"""Sentences: verdicts, events, health, progress, why something is empty.

Sees `facts`. `paragraphs` is the entrance.
"""
