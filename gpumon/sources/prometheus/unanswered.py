"""What a server gives no answer about, its question being beyond its limits: left out by name.

A server that refuses one question answers others. What it refuses as a whole is a failure of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.sources.http.exchange import FetchError

RAISE: Final = "raise that limit of the server"
"""The way out of every question that is too much."""


class Unanswered:
    """The names of one poll whose questions were refused, and the server's words."""

    def __init__(self) -> None:
        """Nothing has been refused."""
        self._errors: dict[str, FetchError] = {}

    def __contains__(self, name: object) -> bool:
        """Whether the question about a name was refused."""
        return name in self._errors

    def take(self, name: str, error: FetchError) -> None:
        """Note why a name has no answer.

        Args:
            name: What the question was about.
            error: The answer in its place.

        Raises:
            FetchError: It is not of this question alone.
        """
        # Without the frames that it passed, which hold the answer.
        self._errors[name] = of_question(error)

    def refuse(self, count: int) -> None:
        """Fail where none of so many questions has an answer.

        Raises:
            FetchError: None has.
        """
        if self._errors and len(self._errors) == count:
            raise next(iter(self._errors.values()))

    def remark(self, hint: str) -> tuple[str, str] | None:
        """What is missing and why, with a way out; None: nothing is."""
        if not self._errors:
            return None
        (name, error), *others = self._errors.items()
        more = f" and {len(others):,} more" if others else ""
        return f"shows no {name}{more}: {error.message}", hint


def of_question(error: FetchError) -> FetchError:
    """The error without the frames that it passed.

    Raises:
        FetchError: It is not of one question alone, so that no other is worth asking.
    """
    if not error.is_of_question:
        raise error
    return error.with_traceback(None)
