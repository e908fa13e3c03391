"""Lines, texts, sections and prompts; they draw visible lines only.

Sees `look`. `strips` turns toned cells into what textual draws.
"""
