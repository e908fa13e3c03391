"""GPUs that work, but not well: what their counters show of it, and since when.

Sees `evidence`. `profile` shows what a GPU's units did, `kind` whether that is training; begin with
`small_batch`.
"""
