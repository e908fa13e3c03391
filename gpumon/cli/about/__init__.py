"""What gpumon says about itself: its commands and options to a shell, and what it found here.

Sees the parsers that it is given, never a command. `command_tree` reads them; `check` is one line
of the doctor.
"""
