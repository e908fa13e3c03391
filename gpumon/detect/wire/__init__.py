"""Messages between the monitor and its detection worker: only what changed, never pickle.

Sees `facts`. `protocol` frames a message, `tick_messages` says what is in it, `work_mark` who is at
work.
"""
