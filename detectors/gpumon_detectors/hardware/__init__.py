"""GPUs, links, ports and nodes that are broken, slow or silent."""
