"""Types of named tuples' fields stay the texts that they are written as."""

from __future__ import annotations

import typing

_CHECK: typing.Final = "_type_check"
_OF_FIELD: typing.Final = "field "
"""So begins what `typing.NamedTuple` has to say of a field."""


def leave_as_text() -> None:
    """Have `typing.NamedTuple` make no object of a text.

    It compiles one for each field, for `typing.get_type_hints`, which takes a text as well: 7 of 57
    ms of the imports of a single answer, 11 of 128 of the terminal's (measured). Where another
    Python does it otherwise nothing changes.
    """
    check = getattr(typing, _CHECK, None)
    if check is None or check.__module__ == __name__:
        return

    def checked(type_: object, message: str = "", *more: object, **named: object) -> object:
        if isinstance(type_, str) and message.startswith(_OF_FIELD):
            return type_
        return check(type_, message, *more, **named)

    setattr(typing, _CHECK, checked)
