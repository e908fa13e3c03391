"""What sources report, what the join makes of it, and the tick that holds both: immutable records.

Sees the words and reasons beside it in `model`. Begin with `frame`, what comes in, and `tick`, what
every view reads.
"""
