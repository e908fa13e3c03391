"""A call that may never return, on a thread that nobody has to wait for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Outcome(Generic[T]):
    """What a call comes to: a file server that hangs holds nobody back.

    The thread ends with the call, or with the process.
    """

    def __init__(self, call: Callable[[], T], name: str) -> None:
        """Begin the call.

        Args:
            call: What it returns or raises is had by `get`.
            name: Of the thread.
        """
        self._call = call
        self._returned: list[T] = []
        self._raised: Exception | None = None
        self._has_ended = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def has_ended(self, wait_s: float | None = 0.0) -> bool:
        """Whether the call has returned or raised; None: wait for that as long as it takes."""
        return self._has_ended.wait(wait_s)

    def get(self) -> T:
        """What it returned.

        Raises:
            TimeoutError: It has not returned.
            Exception: What it raised.
        """
        if not self._has_ended.is_set():
            raise TimeoutError
        if self._raised is not None:
            raise self._raised
        return self._returned[0]

    def _run(self) -> None:
        try:
            self._returned.append(self._call())
        except Exception as error:  # noqa: BLE001 - it is whose who asked
            self._raised = error
        self._has_ended.set()
