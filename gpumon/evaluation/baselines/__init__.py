"""Simple public rules that look at the same ticks: gpumon's own scores are compared with theirs.

`observer` is the entrance, `rules` says what each rule is and where it comes from, `watched_job`
keeps the minutes that they look at.
"""
