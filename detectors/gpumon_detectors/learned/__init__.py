"""What a model recognises that was fitted to labelled recordings. Sees the rooms of the rules.

`learned` judges by a fitted model, `named_patterns` by what a site named.
"""
