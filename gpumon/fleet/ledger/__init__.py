"""The ledger: what became of every GPU-second of every allocation, and the files that store it.

Sees `join`. `ledger` is the entrance, `journal` writes it to disk, `journal_reader` reads it back.
"""
