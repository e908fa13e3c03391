"""Probes as the monitor sees them: started, read, watched, started again.

`pool` runs many of them on one thread, `stream` is one; `local` and `ssh` say how one is started,
`program` what is sent. Knows nothing of Slurm.
"""
