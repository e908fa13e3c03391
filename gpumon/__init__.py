"""Which jobs waste GPUs, why, which rank is at fault, and what to do next."""

__version__ = "0.1.0"
