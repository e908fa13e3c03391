"""The JSON document, part by part.

Sees `facts` and `wording`. `document` is the entrance; the schema beside it ships with the package.
"""
