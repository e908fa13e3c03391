"""What is learnt from labelled recordings: examples, models, and what a model says of a job.

Sees features. `model` is what the worker needs: numbers alone, which no code is made of; only
`fitting`, which `gpumon train` uses, imports scikit-learn.
"""
