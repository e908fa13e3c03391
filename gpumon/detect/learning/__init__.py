"""What is learnt from recordings: models of labelled ones, patterns in what nobody explains.

Sees features. `model` is what the worker needs: numbers alone, which no code is made of. Only
`fitting`, which `gpumon train` uses, and `patterns`, as its command does, import scikit-learn.
`discovery` finds patterns beside the terminal, and groups them in the process of `grouping`;
`novelty` says which jobs are like nothing usual; `case_book` keeps what somebody says of findings.
"""
