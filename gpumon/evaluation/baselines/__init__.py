"""Simple public rules that look at the same pictures: what gpumon's own scores stand beside.

`observer` is the entrance, `rules` says what each rule is and where it comes from, `watched_job`
keeps the minutes that they look at.
"""
