"""The terminal: the only floor that imports textual.

Sees reports and below. `app` is the application, `terminal` runs it, `screens` are its views.
"""
