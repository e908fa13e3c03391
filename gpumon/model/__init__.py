"""The vocabulary that every floor above shares: no I/O, standard library only."""
