"""Pages of exporters as the monitor sees them: fetched on their beat, read, kept apart by node.

`pages` is the source of a target, `fetch` gets one page, `dcgm` makes blocks of it. Sees what reads
exposition text, and how probes make rates of counters.
"""
