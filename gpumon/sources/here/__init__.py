"""Processes of the machine that the terminal runs on, read from /proc when a view shows them.

Nothing of it leaves the terminal: no report, recording or file holds a command line.
"""
