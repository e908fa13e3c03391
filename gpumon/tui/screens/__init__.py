"""One file per view."""
