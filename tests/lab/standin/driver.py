"""Builds and steers the stand-in driver: `python -m tests.lab.standin.driver --help` for shells."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.standin.profiles import MISSING_SYMBOLS, PROFILES
from tests.lab.standin.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Calls",
    "CompilerMissingError",
    "Standin",
    "State",
    "build",
    "counts",
    "env",
    "start",
]

SOURCES = Path(__file__).parent / "src"
LIBRARY = "libnvidia-ml.so.1"
# The record of counts.c: name, total, one counter per GPU of the state file.
_RECORD = struct.Struct("=96sQ16Q")


class CompilerMissingError(RuntimeError):
    """There is no C compiler, so the stand-in cannot be built here."""


def build(out_dir: Path, missing: Sequence[str] = ()) -> Path:
    """Compiles libnvidia-ml.so.1, once per source and list of `missing` symbols.

    Returns:
        The library, alone in a folder that LD_LIBRARY_PATH may name.

    Raises:
        CompilerMissingError: neither $CC nor cc is there.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise CompilerMissingError("no C compiler (cc): the stand-in driver cannot be built")
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256("\0".join(missing).encode())
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    library = out_dir / digest.hexdigest()[:16] / LIBRARY
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out_dir) as scratch:
        exports = Path(scratch) / "exports"
        hidden = "".join(f"{symbol}; " for symbol in missing)
        exports.write_text(f"{{ global: nvml*; standin*; local: {hidden}*; }};\n")
        made = Path(scratch) / LIBRARY
        command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra"]
        command += [f"-Wl,--version-script={exports}", "-o", str(made)]
        command += [str(source) for source in sources if source.suffix == ".c"]
        subprocess.run([*command, "-lpthread", "-lm"], check=True)
        made.chmod(0o755)
        made.replace(library)
    return library


def env(
    library: Path,
    state_dir: Path,
    *,
    counts_file: Path | None = None,
    dev_dir: Path | None = None,
) -> dict[str, str]:
    """This process's environment, changed so that a child loads the stand-in as its driver."""
    path = os.environ.get("LD_LIBRARY_PATH", "")
    result = dict(os.environ)
    result["LD_LIBRARY_PATH"] = f"{library.parent}:{path}" if path else str(library.parent)
    result["NVML_STANDIN_STATE"] = str(state_dir / "state")
    if counts_file is not None:
        result["NVML_STANDIN_COUNTS"] = str(counts_file)
    if dev_dir is not None:
        result["NVML_STANDIN_DEV"] = str(dev_dir)
    return result


@dataclass(frozen=True)
class Calls:
    """Calls of one function: all, and by the GPU's place in the state file (PCI order)."""

    total: int
    per_gpu: tuple[int, ...]


def counts(counts_file: Path) -> dict[str, Calls]:
    """Reads the counts of a running or ended driver; empty while nothing was called."""
    if not counts_file.exists():
        return {}
    data = counts_file.read_bytes()
    result = {}
    for offset in range(0, len(data) - _RECORD.size + 1, _RECORD.size):
        name, total, *per_gpu = _RECORD.unpack_from(data, offset)
        if not name.strip(b"\0"):
            break
        result[name.rstrip(b"\0").decode()] = Calls(total, tuple(per_gpu))
    return result


@dataclass(frozen=True)
class Standin:
    """One pretend node ready for child processes: library, state and call counts."""

    library: Path
    state: State
    counts_file: Path

    def env(self, dev_dir: Path | None = None) -> dict[str, str]:
        """The environment of a child process that shall see this node."""
        return env(
            self.library, self.state.path.parent, counts_file=self.counts_file, dev_dir=dev_dir
        )

    def counts(self) -> dict[str, Calls]:
        """Calls so far, of all processes together."""
        return counts(self.counts_file)


def start(
    folder: Path,
    profile: str = "h100",
    *,
    gpus: int | None = None,
    minors: Sequence[int] | None = None,
    node: str = "node1",
    devices: str = "off",
) -> Standin:
    """Builds the library (cached in the temporary folder), writes the profile, returns the node.

    Raises:
        CompilerMissingError: there is no C compiler.
    """
    cache = Path(tempfile.gettempdir()) / f"nvml-standin-{os.getuid()}"
    cache.mkdir(mode=0o755, exist_ok=True)
    library = build(cache, MISSING_SYMBOLS.get(profile, ()))
    wanted = {"minors": minors, "node": node} | ({} if gpus is None else {"gpus": gpus})
    state = State(folder, PROFILES[profile](**wanted))
    state.set(devices=devices)
    state.write()
    return Standin(library, state, folder / "counts")


def main() -> None:
    """Command line for shell scripts: build the library, write a node's state file."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="compile, print the library's path")
    builder.add_argument("out_dir", type=Path)
    builder.add_argument("--profile", choices=sorted(PROFILES), default="h100")
    writer = commands.add_parser("write", help="write STATE_DIR/state for a node")
    writer.add_argument("state_dir", type=Path)
    writer.add_argument("--profile", choices=sorted(PROFILES), default="h100")
    writer.add_argument("--gpus", type=int, default=8)
    writer.add_argument("--minors", help="comma-separated, in PCI order; default 0,1,2,…")
    writer.add_argument("--node", default="node1", help="seed of the UUIDs")
    writer.add_argument("--devices", choices=("on", "off"), default="on")
    options = parser.parse_args()
    if options.command == "build":
        print(build(options.out_dir, MISSING_SYMBOLS.get(options.profile, ())))
        return
    minors = [int(part) for part in options.minors.split(",")] if options.minors else None
    values = PROFILES[options.profile](options.gpus, minors, options.node)
    state = State(options.state_dir, values)
    state.set(devices=options.devices)
    state.write()


if __name__ == "__main__":
    main()
