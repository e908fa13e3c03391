"""Every key, declared once: bindings, footer, help and docs are made from the registry.

`registry` is the entrance, `palette` what `:` understands.
"""
