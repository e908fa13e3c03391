"""Where acknowledgements and mutes outlive the terminal in which they were said."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Final

from gpumon.base.paths import make_private, state_folder

READ_S: Final = 1.0
"""A file that cannot be read in this time, on a file system that hangs, says nothing."""

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
    home that cannot be written only forgets: notes are a convenience.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is read or written before it is asked for."""
        self._path = path
        self.trouble = ""
        """Why the file was neither read nor will be written, empty where it can be."""
        self._lock = threading.Lock()
        self._newest: dict[str, object] = {}
        self._thread: threading.Thread | None = None

    def read(self) -> object:
        """What was said before; None where nothing was, or it cannot be read."""
        found: list[object] = []

        def look() -> None:
            try:
                with self._path.open("rb") as file:
                    raw = file.read(MAX_BYTES + 1)
                if len(raw) > MAX_BYTES:
                    # Whatever it is, it is not ours to be written over.
                    self.trouble = f"{self._path} is larger than {MAX_BYTES} bytes and is not read"
                else:
                    found.append(json.loads(raw))
            except (OSError, ValueError, RecursionError):
                # Nothing said yet, or rubbish: findings are then told, which is the safe side.
                return

        thread = threading.Thread(target=look, name="notes", daemon=True)
        thread.start()
        thread.join(READ_S)
        return found[0] if found else None

    def write(self, notes: dict[str, object]) -> None:
        """Keep notes, without waiting; a file that was too large to be read is left alone."""
        if self.trouble:
            return
        self._newest = notes
        self._thread = threading.Thread(target=self._write, name="notes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait a moment for the last write."""
        if self._thread is not None:
            self._thread.join(WRITE_S)

    def _write(self) -> None:
        with self._lock:
            text = json.dumps(self._newest)
            part = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            try:
                make_private(self._path.parent)
                part.unlink(missing_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(part, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write(text)
                part.replace(self._path)
            except OSError:
                # See the class: a full disk or a read-only home only forgets.
                return
