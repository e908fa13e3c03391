"""A picture as metrics: OpenMetrics 1.0 and Prometheus' text format 0.0.4; pure functions.

Sees `document`, whose numbers it tells. `families` says what is told, `exposition` writes it.
"""
