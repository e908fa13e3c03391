"""What `gpumon serve` answers over HTTP, and how: it only reads, and it never asks a source.

Sees `report`, whose pages it serves. `routes` says what is answered, `server` runs it.
"""
