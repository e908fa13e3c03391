"""The vocabulary that every floor above shares: no I/O, standard library only.

Imports `base` alone. `records` is what flows, `catalogue` what is measured, `missing` why a value
is not there.
"""
