"""What detectors get to know besides history: of GPUs, nodes, links, events and processes.

Sees the model and history. `facts` says what there is, `fleet_facts` keeps it up.
"""
