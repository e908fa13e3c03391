"""Jobs whose GPUs wait for something of the host: data, storage, CPUs, checkpoints.

`gpu_rows` and `host_rows` show what GPUs and hosts did, `pauses` which pauses come again and again,
`steady` what is scarce all the while, `by_chance` what samples of a moment meet at random. Each
rule asks these, so that of one job's waiting one rule speaks. Sees `evidence`.
"""
