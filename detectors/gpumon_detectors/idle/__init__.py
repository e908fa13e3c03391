"""GPUs that are held and not used."""
