"""Every measured quantity, declared once, by the kind of entity that it belongs to.

Imports nothing else of gpumon. `fields` puts the declarations together into THE catalogue.
"""
