"""Servers with Prometheus' interface, which have gathered the pages of a fleet's exporters.

`server` is the source of a target, `client` asks, `response` reads what it answers, `questions` says
what is asked, `known` of which GPUs that tells, `nodes` makes each node's blocks of it as those of
a page, `alike` of many at once. Sees `exporters`.
"""
