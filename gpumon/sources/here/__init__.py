"""Processes of the machine that the terminal runs on, read from /proc when somebody looks at them.

Nothing of it leaves the terminal: no report, recording or file holds a command line.
"""
