"""The past as columns in bounded memory: recent fine, older coarse.

`history` is what is written to, `reader` and `windows` what is asked.
"""
