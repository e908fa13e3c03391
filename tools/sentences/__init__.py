"""What every built-in detector says, by really running it on small scenes.

`block` is the entrance; the other modules hold the scenes, a short function for each kind of
sentence, whose docstring tells the reader what happens.
"""
