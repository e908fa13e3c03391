"""Who runs this process, as Slurm calls its users."""

from __future__ import annotations

import os
import pwd


def own_login() -> str:
    """Login name of this process's user; its number where the system knows none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
