"""Jobs that asked for more, or for something else, than they use.

Sees `evidence`. `growth` is what the rules about memory share; begin with `overasked`.
"""
