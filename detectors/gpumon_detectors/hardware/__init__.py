"""GPUs, links, ports and nodes that are broken, slow or silent.

Sees `evidence`. Begin with `gpu_fault`, which judges what a driver says in one sample.
"""
