"""What a model tells that was learnt from labelled recordings. Sees the rooms of the rules.

`learned` judges by a fitted model, `named_patterns` by what a site named.
"""
