"""What detectors look for before they judge: use of GPUs and hosts, symptoms, episodes, context.

Claims nothing by itself.
"""
