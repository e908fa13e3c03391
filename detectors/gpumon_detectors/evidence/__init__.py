"""What detectors look for before they judge: use of GPUs and hosts, symptoms, episodes, context.

Claims nothing by itself. `symptom` is what the modules about symptoms make, `gpu_use` and
`host_use` what most rules ask.
"""
