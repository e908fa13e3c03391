"""The fleet over time: joins, history, and the one loop that samples."""
