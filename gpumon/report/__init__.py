"""Pure functions from a tick to text or bytes, shared by the terminal and the command line."""
