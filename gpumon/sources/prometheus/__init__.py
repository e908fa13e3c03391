"""Servers with Prometheus' interface, which have gathered the pages of a fleet's exporters.

`server` is the source of a target, `client` asks, `answer` reads the answer, `questions` says what
is asked, `nodes` makes each node's blocks of it as those of a page. Sees `exporters`.
"""
