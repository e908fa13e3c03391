"""Example detector for gpumon."""
