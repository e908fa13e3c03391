"""A second, independently written generator of labelled recordings: other boards, mixes and noise.

It shares no code and no number with the other rooms of `simulate`. A job is a row of phases of
known length on each rank; what a probe reads follows by the catalogue's definitions. `recording`
is the entrance, `ranges` every number that is drawn, with its source.
"""
