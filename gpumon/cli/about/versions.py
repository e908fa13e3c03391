"""`gpumon --version`: which gpumon this is, and what it found on this machine."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon import __version__
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULE: Final = Path("/sys/module/nvidia/version")
"""Version of the NVIDIA kernel module that is loaded, one line; reading it enters no driver."""

_SLURM_S: Final = 2.0
"""`scontrol --version` asks nobody and takes milliseconds, unless its file system or a name
server hangs."""


UNKNOWN: Final = "of unknown version"
"""It is there, and does not tell."""


def versions(module: Path = _MODULE, slurm: Callable[[], str] | None = None) -> str:
    """The lines of `--version`; the first one names gpumon alone.

    Args:
        module: File with the version of the driver's kernel module.
        slurm: What gives the version of Slurm's commands, empty where there are none.
    """
    return (
        f"gpumon {__version__}\n"
        f"Python {platform.python_version()}\n"
        f"NVIDIA driver {_driver(module) or 'none'}, nvidia-ml-py {_binding() or 'none'}\n"
        f"Slurm {(slurm or slurm_version)() or 'none'}\n"
    )


def _driver(module: Path) -> str:
    try:
        return plain(module.read_text(encoding="utf-8", errors="replace").strip()[:40])
    except OSError:
        return ""


def _binding() -> str:
    try:
        return plain(metadata.version("nvidia-ml-py"))
    except metadata.PackageNotFoundError:
        return ""


def slurm_version() -> str:
    """Version of Slurm's commands on this machine; empty: there are none.

    Without a cluster's configuration scontrol does not even tell its version.
    """
    from gpumon.sources.slurm.commands.commands import SlurmCommands
    from gpumon.sources.slurm.commands.failures import CommandFailedError

    commands = SlurmCommands(timeout_s=_SLURM_S)
    if not commands.available():
        return ""
    try:
        printed, _ = commands.ask(("scontrol", "--version"), "scontrol --version")
    except CommandFailedError:
        return UNKNOWN
    return plain(printed.strip().removeprefix("slurm ")[:40])
