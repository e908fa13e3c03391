"""What this user may read of a machine, and what each missing permission hides. Reads only.

Everything is looked up below a root folder, which is `/` but in tests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.cli.examined.check import ABSENT, LESS, OK, Check
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path("/")

SYS_PTRACE: Final = 19
"""Number of the capability to read what other users' processes hold (linux/capability.h)."""
SYS_ADMIN: Final = 21
"""Number of the capability that the driver asks for before it profiles (linux/capability.h)."""

RESTRICTING: Final = ("RmProfilingAdminOnly", "NVreg_RestrictProfilingToAdminUsers")
"""Names under which drivers publish one setting; the second is also what an administrator sets."""


def every(root: Path = ROOT) -> Iterator[Check]:
    """One check per permission."""
    yield processes(root)
    yield ranks(root)
    yield profiling(root)
    yield kernel_log(root)
    yield debugfs(root)


def capabilities(root: Path) -> int:
    """Effective capabilities of this process as a mask, 0 where they cannot be read."""
    for line in _lines(root / "proc/self/status"):
        name, _, mask = line.partition(":")
        if name == "CapEff":
            try:
                return int(mask, 16)
            except ValueError:
                return 0
    return 0


def _has(root: Path, capability: int) -> bool:
    return bool(capabilities(root) >> capability & 1)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def processes(root: Path = ROOT) -> Check:
    """Whether the kernel shows processes of other users at all."""
    hides = ""
    for line in _lines(root / "proc/mounts"):
        words = line.split()
        if len(words) > 3 and words[1:3] == ["/proc", "proc"]:
            options = dict(word.partition("=")[::2] for word in words[3].split(","))
            hides = options.get("hidepid", "")
    if hides in ("", "0", "off") or _has(root, SYS_PTRACE):
        return Check("processes", OK, "processes of every user are visible")
    return Check(
        "processes",
        LESS,
        f"/proc is mounted with hidepid={plain(hides)}: names, owners and jobs of other users' "
        "processes are hidden",
        "root sees them, and so does the group in the mount option gid=",
    )


def ranks(root: Path = ROOT) -> Check:
    """Whether rank variables of other users' processes can be read."""
    if _has(root, SYS_PTRACE):
        return Check("ranks", OK, "rank variables of every user's processes are readable")
    return Check(
        "ranks",
        LESS,
        "rank variables of your own processes only: ranks of other users' jobs stay unknown",
        "root, or a process with CAP_SYS_PTRACE, reads them",
    )


def profiling(root: Path = ROOT) -> Check:
    """Whether the driver reserves profiling for administrators."""
    lines = _lines(root / "proc/driver/nvidia/params")
    if not lines:
        return Check("profiling", ABSENT, "no NVIDIA kernel module, or its settings are hidden")
    settings = dict(line.partition(":")[::2] for line in lines)
    is_restricted = any(settings.get(name, "").strip() == "1" for name in RESTRICTING)
    if not is_restricted or _has(root, SYS_ADMIN):
        return Check("profiling", OK, "performance counters may be read")
    return Check(
        "profiling",
        LESS,
        "the driver reserves profiling for administrators: profilers are refused, and where a GPU "
        "refuses GPM too, its SM, tensor and memory activity are hidden",
        "ask an administrator to set NVreg_RestrictProfilingToAdminUsers=0 for the module nvidia",
    )


def kernel_log(root: Path = ROOT) -> Check:
    """Whether the kernel's log can be read."""
    try:
        os.close(os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        return Check("kernel log", ABSENT, "no /dev/kmsg here, as in most containers")
    except OSError as error:
        return Check(
            "kernel log",
            LESS,
            f"/dev/kmsg: {error.strerror}: Xids from before gpumon's start are hidden, and so are "
            "those of a GPU that is lost",
            "root reads it; sysctl kernel.dmesg_restrict=0 lets every user read it",
        )
    return Check("kernel log", OK, "readable: Xids from before gpumon's start are seen")


def debugfs(root: Path = ROOT) -> Check:
    """Whether the kernel's debug files can be read, where Lustre keeps its statistics."""
    folder = root / "sys/kernel/debug"
    if not folder.is_dir():
        return Check("debugfs", ABSENT, "not there")
    if os.access(folder, os.R_OK | os.X_OK):
        return Check("debugfs", OK, "readable")
    return Check(
        "debugfs",
        LESS,
        "/sys/kernel/debug: Permission denied: rates of Lustre clients that keep them there "
        "are hidden",
        "root reads it",
    )
