"""The language of row filters in a few lines, for the help page and the documentation."""

from __future__ import annotations

from typing import Final

FILTER_HELP: Final = (
    ("alice", "rows with this text, upper or lower case; “two words” in quotation marks"),
    ("user==a*", "what a column shows, * and ? for any characters; != for anything else"),
    ("sm<20", "numbers as on the screen: percent, GiB, W; also > <= >= == !="),
    ("mem>40G", "or with a unit: 40G, 300W, 1.5GB/s, 20%"),
    ("age>2h30m", "durations: 90s, 45m, 2h30m, 1d, 1-02:03:04"),
    ("name~^v[0-9]", "a regular expression anywhere in the text; !~ for rows without it"),
    ("a & b, a b", "both; a | b either; (a | b) c; !a not"),
    ("sm?", "rows without a value; no comparison passes these, !(sm<20) does"),
    ("SM%, sm", "columns by title, by key (sm_active_ratio), or by an unambiguous beginning"),
    ("Tab", "completes a column; a mistake is shown below, and the last valid filter stays"),
)
"""What is typed, and which rows it keeps."""
