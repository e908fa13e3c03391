"""Each source turns one target into frames. The only floor that may block."""
