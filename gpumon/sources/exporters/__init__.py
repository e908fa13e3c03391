"""Pages of exporters as the monitor sees them: fetched at their period, read, separated by node.

`pages` is the source of a target, `fetch` gets one page, `dcgm` makes blocks of it. Sees what reads
exposition text, and how probes make rates of counters.
"""
