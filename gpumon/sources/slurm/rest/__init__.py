"""Asks slurmrestd: versions, headers, sockets, what goes wrong.

`client` is the entrance, `accounting` what slurmdbd says through it.
"""
