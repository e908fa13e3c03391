"""Jobs that asked for more, or for something else, than they use."""
