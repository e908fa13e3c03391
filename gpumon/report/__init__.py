"""Pure functions from a tick to text or bytes, shared by the terminal and the command line.

Sees evaluation and below, never a library that draws. `tables` and `pages` say what is shown,
`document` is the JSON, `facts` what both are made of.
"""
