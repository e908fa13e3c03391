"""The text in which exporters publish metrics: Prometheus' exposition format and OpenMetrics.

`parse` reads a page strictly, `shape` reads one that looks as the last did, much faster. Knows no
metric by name.
"""
