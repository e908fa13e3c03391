"""What belongs to no floor and every floor may use; it imports nothing of gpumon.

`paths` says where files lie, `background` writes them without holding anybody up, `errors` is the
root of all exceptions.
"""
