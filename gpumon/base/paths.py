"""Where a user's own files lie, by the XDG base directory specification.

Relative entries do not count, as it says: what is kept must not depend on the current folder. By
os.path, because a single look cannot wait for pathlib.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN: Final = "gpumon"
"""Name of gpumon's folder in each of them."""


def state_folder(environ: Mapping[str, str] | None = None) -> str:
    """What is kept from one start to the next: below `$XDG_STATE_HOME`, else ~/.local/state."""
    return _own("XDG_STATE_HOME", ".local/state", environ)


def recordings_folder() -> str:
    """Where rolling recordings lie that nobody has given a folder of their own."""
    return os.path.join(state_folder(), "recordings")


def cache_folder(environ: Mapping[str, str] | None = None) -> str:
    """What may be lost at any time: below `$XDG_CACHE_HOME`, else ~/.cache."""
    return _own("XDG_CACHE_HOME", ".cache", environ)


def runtime_folder(environ: Mapping[str, str] | None = None) -> str | None:
    """What ends with the session: below `$XDG_RUNTIME_DIR`; None: the system has no such."""
    named = _named("XDG_RUNTIME_DIR", os.environ if environ is None else environ)
    return os.path.join(named, OWN) if named else None


def config_folders(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Folders that may hold settings, in the order in which they are read; the last is the user's.

    `$XDG_CONFIG_DIRS` (default /etc/xdg), whose first folder counts most and so is read last of
    them, then `$XDG_CONFIG_HOME` (default ~/.config).
    """
    environ = os.environ if environ is None else environ
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    site = [os.path.join(folder, OWN) for folder in system if folder.startswith("/")]
    return (*reversed(site), _own("XDG_CONFIG_HOME", ".config", environ))


def make_private(folder: str | os.PathLike[str]) -> None:
    """Make a folder, and what is missing above it, each for its owner alone whatever the umask.

    Raises:
        OSError: It cannot be made, or what is there is no folder.
    """
    here = os.path.abspath(folder)
    missing: list[str] = []
    while not os.path.isdir(here):
        missing.append(here)
        here = os.path.dirname(here)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            # Another program may have made it meanwhile.
            if not os.path.isdir(path):
                raise


def _own(variable: str, below_home: str, environ: Mapping[str, str] | None) -> str:
    environ = os.environ if environ is None else environ
    base = _named(variable, environ) or os.path.join(_home(environ), below_home)
    return os.path.join(base, OWN)


def _named(variable: str, environ: Mapping[str, str]) -> str:
    """The absolute folder that a variable names; empty: none."""
    named = environ.get(variable, "")
    return named if named.startswith("/") else ""


def _home(environ: Mapping[str, str]) -> str:
    """HOME, else what the system's list of users says.

    A user whom nobody knows has `/`, as Docker has it for such users: who may not write there is
    told so with the folder's name, and nothing is ever written below the current folder.
    """
    named = _named("HOME", environ)
    if named:
        return named
    import pwd

    try:
        listed = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"
    return listed if listed.startswith("/") else "/"
