"""What a model tells that was learnt from labelled recordings. Sees the rooms of the rules."""
