"""GPUs that work, but not well: what their counters show of it, and since when."""
