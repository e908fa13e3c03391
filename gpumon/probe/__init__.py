"""The program that runs on a node: Python 3.6, the NVML binding, nothing else; only reads.

Imports nothing of gpumon. `main` is the entrance, `tiers` lists what is read how often.
"""
