"""A tick as metrics: OpenMetrics 1.0 and Prometheus' text format 0.0.4; pure functions.

Sees `document`, whose numbers it publishes. `families` chooses what is published, `exposition`
writes it.
"""
