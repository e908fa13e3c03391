"""Login names of the users who own processes, as this node knows them.

Those of /etc/passwd are read; for the others a directory service is asked, LDAP or SSSD, and one
that is dead may not answer for minutes. So it is asked on a thread that no reading waits for.
"""

import ctypes
import errno
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from gpumon.probe.kernel import files
from gpumon.probe.rows import NOT_SAMPLED, NOT_SUPPORTED, Row

MAX_USERS = 4096
"""Most users that are remembered, and most that are waited for: as many as processes."""

MAX_NAME = 256
"""Longer names are cut, as the monitor does."""

MAX_PASSWD = 1 << 20
"""Most bytes of /etc/passwd that are read: the users of a node itself take a few thousand."""

RETRY_S = 300.0
"""How often a missing name is asked for again: a directory that was down is up by then."""

ROOM = (1 << 12, 1 << 16, 1 << 20)
"""Bytes for the texts of an entry; the next one where they do not fit."""


class Passwd(ctypes.Structure):
    """struct passwd (pwd.h): every libc begins it with the name; the rest is never read."""

    _fields_ = [("name", ctypes.c_char_p), ("rest", ctypes.c_char * 256)]


def login_name(uid: int) -> Optional[str]:
    """What the node calls a user, None where it knows no such user. May hang.

    Not by Python's own `pwd`: older ones ask with the interpreter's lock in hand, and no thread
    would run on, not even the one that ends the probe.
    """
    try:
        ask = ctypes.CDLL(None).getpwuid_r
    except (OSError, AttributeError):
        return None
    entry, found = Passwd(), ctypes.c_void_p()
    for size in ROOM:
        room = ctypes.create_string_buffer(size)
        arguments = ctypes.byref(entry), room, ctypes.c_size_t(size), ctypes.byref(found)
        if ask(ctypes.c_uint(uid), *arguments) != errno.ERANGE:
            break
    # The name lies in `room`, which lives until here.
    return entry.name.decode("utf-8", "replace") if found and entry.name else None


def local_names(text: str) -> Dict[int, str]:
    """Names by uid of a text as /etc/passwd has it; of several the first one, as libc does."""
    found: Dict[int, str] = {}
    for line in text.splitlines():
        words = line.split(":")
        if len(words) > 2 and words[0] and words[2].isdecimal() and len(words[2]) < 20:
            found.setdefault(int(words[2]), words[0])
    return found


class Found(NamedTuple):
    """What came of asking for a user."""

    name: Optional[str]
    """None: the node knows no name."""
    at: float


class Users:
    """Names by uid; what is not known yet is asked for in the background."""

    def __init__(
        self,
        path: str = "/etc/passwd",
        look_up: Callable[[int], Optional[str]] = login_name,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is read before a name is asked for, and no thread runs before it has to."""
        self._path = path
        self._look_up = look_up
        self._monotonic = monotonic
        self._found: Dict[int, Found] = {}
        self._awaited: List[int] = []
        self._thread: Optional[threading.Thread] = None
        self._changed = threading.Condition()
        self.answers = 0
        """How often something was found; a number that did not change: no name did."""

    def ask(self, rows: List[Row]) -> None:
        """Begin to ask for the owners of processes that are not known yet; waits for nothing."""
        now = self._monotonic()
        uids = {int(row.values["uid"]) for row in rows if "uid" in row.values}
        with self._changed:
            strange = sorted(uid for uid in uids if self._is_due(uid, now))
        if not strange:
            return
        local = local_names(files.read_or_empty(self._path, MAX_PASSWD))
        with self._changed:
            if len(self._found) + len(strange) > MAX_USERS:
                self._found.clear()
            for uid in strange[: MAX_USERS - len(self._awaited)]:
                if uid in local:
                    self._found[uid] = Found(local[uid][:MAX_NAME], now)
                    self.answers += 1
                else:
                    self._awaited.append(uid)
            self._changed.notify_all()
            if self._awaited and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="users", daemon=True)
                self._thread.start()

    def wait(self, patience_s: float) -> None:
        """Wait until all names have an answer, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._awaited, patience_s)

    def add_to(self, rows: List[Row]) -> None:
        """Give processes the names of their owners, as far as they are known."""
        with self._changed:
            for row in rows:
                row.missing.pop("user", None)
                uid = row.values.get("uid")
                found = None if uid is None else self._found.get(int(uid))
                if found is not None and found.name:
                    row.labels["user"] = found.name
                elif uid is None:
                    row.missing["user"] = row.missing.get("uid", NOT_SAMPLED)
                else:
                    row.missing["user"] = NOT_SAMPLED if found is None else NOT_SUPPORTED

    def _is_due(self, uid: int, now: float) -> bool:
        found = self._found.get(uid)
        is_known = found is not None and (bool(found.name) or now - found.at < RETRY_S)
        return not is_known and uid not in self._awaited

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._awaited))
                uid = self._awaited[0]
            name = self._look_up(uid)
            with self._changed:
                self._found[uid] = Found(name and name[:MAX_NAME], self._monotonic())
                self.answers += 1
                self._awaited.remove(uid)
                self._changed.notify_all()
