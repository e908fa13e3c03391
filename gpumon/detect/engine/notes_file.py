"""Where acknowledgements and mutes outlive the terminal in which they were said."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from gpumon.base.outcome import Outcome
from gpumon.base.own_file import write_own
from gpumon.base.paths import state_folder
from gpumon.base.writing_thread import RETRY_S, SLOW_S, WritingThread

READ_S: Final = 1.0
"""A file that cannot be read in this time, on a file system that hangs, is not waited for."""

WRITE_S: Final = 0.2
"""How long the end of a terminal waits for the last write."""


MAX_BYTES: Final = 2**22
"""More is no file of a person's notes."""


def own_notes() -> Path:
    """Where this user's notes lie."""
    return Path(state_folder(), "notes.json")


class NotesFile:
    """Keeps notes on disk, mode 0600; of two terminals at a time the last that speaks counts.

    Reading and writing happen on threads of their own, so that no key waits for a file server. A
    home that cannot be written forgets, and that is told.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is read or written before it is asked for."""
        self._path = path
        self._writing = WritingThread("notes", retry_s=RETRY_S)
        self._unread = ""
        """Why what lies there is neither known nor written over."""

    @property
    def trouble(self) -> str:
        """Why what was said last is not on disk, with the file's name; empty: it is, or will be."""
        if self._unread:
            return f"{self._path} {self._unread}"
        if (error := self._writing.error) is not None:
            return f"{self._path} cannot be written: {error.strerror}"
        if self._writing.busy_s > SLOW_S:
            return f"{self._path} cannot be written: its file system does not answer"
        return ""

    @property
    def way_out(self) -> str:
        """What helps where there is trouble."""
        if self._unread:
            return (
                "it is not changed, and your notes are lost when this terminal closes; repair it "
                "or move it away, then start gpumon again"
            )
        return (
            "what you note and mute is lost when this terminal closes, unless it can be written "
            "before"
        )

    def read(self) -> object:
        """What was said before; None where nothing was, or it cannot be read.

        What cannot be read is not written over: it may hold what somebody has said for weeks.
        """
        outcome = Outcome(self._read_file, "notes")
        outcome.has_ended(READ_S)
        self._unread = "did not answer when it was read"
        with suppress(TimeoutError):
            notes, self._unread = outcome.get()
            return notes
        return None

    def _read_file(self) -> tuple[object, str]:
        """What the file says, and why that cannot be known."""
        try:
            with self._path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
            if len(raw) > MAX_BYTES:
                return None, f"is larger than {MAX_BYTES} bytes and is not read"
            return json.loads(raw) if raw.strip() else None, ""
        except (FileNotFoundError, NotADirectoryError):
            return None, ""
        except OSError as error:
            return None, f"cannot be read: {error.strerror}"
        except (ValueError, RecursionError):
            return None, "is not JSON"

    def write(self, notes: dict[str, object]) -> None:
        """Keep notes, without waiting; what could not be read is left as it is."""
        if self._unread:
            return
        text = json.dumps(notes)
        self._writing.take(lambda: write_own(self._path, text), is_newest_only=True)

    def close(self) -> None:
        """Wait a moment for the last write."""
        self._writing.close(WRITE_S)
