"""Ranks that wait for one another, and which of them the others wait for."""
