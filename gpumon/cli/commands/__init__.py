"""One file per command, imported when it is asked for.

Sees the options, the request and the exits beside this folder.
"""
