"""What views share, by what they draw (a table, sections, a text), and what they may ask for.

Names no single view. `view` is the entrance, `contract` what a view asks for.
"""
