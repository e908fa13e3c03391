"""Servers with Prometheus' interface, which have gathered the pages of a fleet's exporters.

`server` is the source of a target, `client` asks, `response` reads the answer, `questions` says
what is asked, `known` which GPUs the labels name, `label_columns` reads many at once, `nodes` makes
each node's blocks of it as those of a page, `alike` those of many nodes at once. Sees `exporters`.
"""
