"""What is learnt from recordings: models of labelled ones, patterns in what no finding explains.

Sees features. `model` is what the worker needs: numbers alone. Only `fitting`, which `gpumon train`
uses, and `patterns` import scikit-learn. `discovery` finds patterns beside the terminal,
`case_store` stores how users judge findings.
"""
