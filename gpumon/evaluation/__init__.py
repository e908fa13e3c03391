"""Scores what gpumon says of labelled recordings.

Sees findings, ledger and labels, not how they came about: every detector is scored alike. `witness`
looks on, `scoreboard` is what comes of it.
"""
