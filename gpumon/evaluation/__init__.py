"""Scores what gpumon says of labelled recordings.

Sees findings, books and labels, not how they came about: a detector is scored whoever wrote it.
`witness` looks on, `scoreboard` is what comes of it.
"""
