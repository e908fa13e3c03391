"""Who holds the GPUs: the processes, whose they are, and what they have started.

Reads the kernel's files of processes; `users` asks the node for the names of users besides.
"""
