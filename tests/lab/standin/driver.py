"""Builds and steers the stand-in driver: `python -m tests.lab.standin.driver --help` for shells."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.standin.profiles import MISSING_SYMBOLS, PROFILES, Values

SOURCES = Path(__file__).parent / "src"
LIBRARY = "libnvidia-ml.so.1"
XID_CRITICAL_ERROR = 0x8
# The record of counts.c: name, total, one counter per GPU of the state file.
_RECORD = struct.Struct("=96sQ16Q")

# Counter and the rate that drives it; milliwatts are millijoules per second.
_GPU_COUNTERS = {
    "energy_mj": "power_mw",
    "pcie_tx_bytes": "pcie_tx_bytes_per_s",
    "pcie_rx_bytes": "pcie_rx_bytes_per_s",
}


class CompilerMissing(RuntimeError):
    """There is no C compiler, so the stand-in cannot be built here."""


def build(out_dir: Path, missing: Sequence[str] = ()) -> Path:
    """Compiles libnvidia-ml.so.1, once per source and list of `missing` symbols.

    Returns:
        The library, alone in a folder that LD_LIBRARY_PATH may name.

    Raises:
        CompilerMissing: neither $CC nor cc is there.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise CompilerMissing("no C compiler (cc): the stand-in driver cannot be built")
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
        command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
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


class State:
    """The state file of one pretend node. Setters change this object, `write` publishes it."""

    def __init__(self, state_dir: Path, values: Mapping[str, object]) -> None:
        self.path = state_dir / "state"
        self.values: Values = {key: str(value) for key, value in values.items()}
        self._published: Values = {}

    @classmethod
    def load(cls, state_dir: Path) -> State:
        """Continues from a state file that another process wrote."""
        lines = (state_dir / "state").read_text().splitlines()
        state = cls(state_dir, dict(line.split(" ", 1) for line in lines if line))
        state._published = dict(state.values)
        return state

    def set(self, **values: object) -> None:
        """Sets global keys, for example `devices="off"`."""
        self._put("", values)

    def gpu(self, index: int, **values: object) -> None:
        """Sets keys of one GPU; None makes the call answer NOT_SUPPORTED."""
        self._put(f"gpu.{index}.", values)

    def link(self, gpu: int, link: int, **values: object) -> None:
        """Sets keys of one NVLink."""
        self._put(f"gpu.{gpu}.link.{link}.", values)

    def field(self, gpu: int, field_id: int, value: float, scope: int | None = None) -> None:
        """Overrides what nvmlDeviceGetFieldValues answers for one field id."""
        self.values[f"gpu.{gpu}.field.{field_id}{_dotted(scope)}"] = str(value)

    def field_error(self, gpu: int, field_id: int, code: int, scope: int | None = None) -> None:
        """Gives one field id its own nvmlReturn."""
        self.values[f"gpu.{gpu}.field_error.{field_id}{_dotted(scope)}"] = str(code)

    def gpm(self, gpu: int, metric: int, percent: float | None) -> None:
        """Sets one GPM metric; None takes it away."""
        key = f"gpu.{gpu}.gpm.{metric}"
        self.values.pop(key, None)
        if percent is not None:
            self.values[key] = str(percent)

    def gpm_error(self, gpu: int, metric: int, code: int) -> None:
        """Gives one GPM metric its own nvmlReturn."""
        self.values[f"gpu.{gpu}.gpm_error.{metric}"] = str(code)

    def process(
        self,
        gpu: int,
        pid: int,
        mem_bytes: int | None,
        sm_percent: int = 0,
        mem_percent: int = 0,
        kind: str = "C",
    ) -> None:
        """Lists a process without a context; kind C compute, G graphics, M client of MPS."""
        mem = "n/a" if mem_bytes is None else str(mem_bytes)
        self.values[f"gpu.{gpu}.process.{pid}"] = f"{mem} {sm_percent} {mem_percent} {kind}"

    def error(self, function: str, code: int, gpu: int | None = None) -> None:
        """Makes a function (or "*") fail; 13 stands for a symbol that the driver lacks."""
        self.values[f"inject.error.{function}{_dotted(gpu)}"] = str(code)

    def latency(self, function: str, milliseconds: int, gpu: int | None = None) -> None:
        """Makes a function slow; slow calls of several threads queue up."""
        self.values[f"inject.latency_ms.{function}{_dotted(gpu)}"] = str(milliseconds)

    def hang(self, function: str, from_call: int = 1, gpu: int | None = None) -> None:
        """Makes a function never return from its n-th call in a process on."""
        self.values[f"inject.hang.{function}{_dotted(gpu)}"] = str(from_call)

    def garbage(self, function: str, value: int, gpu: int | None = None) -> None:
        """Makes a function succeed with this number."""
        self.values[f"inject.garbage.{function}{_dotted(gpu)}"] = str(value)

    def lose(self, gpu: int, before_init: bool = False) -> None:
        """Every call on this GPU answers GPU_IS_LOST; before_init: there is no handle either."""
        self.values[f"gpu.{gpu}.lost"] = "2" if before_init else "1"

    def event(self, gpu: int, data: int, event_type: int = XID_CRITICAL_ERROR) -> None:
        """Queues an event (an Xid in `data` unless told otherwise) for sets registered before."""
        known = [int(key[6:]) for key in self.values if key.startswith("event.")]
        self.values[f"event.{max(known, default=0) + 1}"] = f"{gpu} {event_type} {data}"

    def heal(self) -> None:
        """Takes back every injection and every loss."""
        for key in list(self.values):
            if key.startswith("inject.") or key.endswith(".lost"):
                del self.values[key]

    def write(self) -> None:
        """Publishes atomically; counters go on from where they are, at the new rates."""
        now_us = time.monotonic_ns() // 1000
        if "epoch_us" in self._published:
            age_s = (now_us - int(self._published["epoch_us"])) / 1e6
            self._carry_counters(age_s if self._published.get("counters_live") != "0" else 0.0)
        self.values["epoch_us"] = str(now_us)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._make_contexts_dir()
        scratch = self.path.with_name(f"state.{os.getpid()}.new")
        scratch.write_text("".join(f"{key} {value}\n" for key, value in self.values.items()))
        scratch.chmod(0o644)
        scratch.replace(self.path)
        self._published = dict(self.values)

    def _make_contexts_dir(self) -> None:
        contexts = self.path.parent / "contexts"
        if not contexts.exists():
            contexts.mkdir()
            contexts.chmod(0o1777)

    def _put(self, prefix: str, values: Mapping[str, object]) -> None:
        for key, value in values.items():
            self.values[prefix + key] = "n/a" if value is None else str(value)

    def _carry_counters(self, age_s: float) -> None:
        for index in range(int(self._published.get("gpu_count", "0"))):
            prefix = f"gpu.{index}."
            for counter, rate in _GPU_COUNTERS.items():
                self._carry(prefix + counter, self._was(prefix + rate) or 0, age_s)
            for link in range(self._was(f"{prefix}nvlink_count") or 0):
                for way in ("tx", "rx"):
                    key = f"{prefix}link.{link}.{way}_bytes"
                    self._carry(key, self._link_rate(prefix, link, way), age_s, absent=0)

    def _link_rate(self, prefix: str, link: int, way: str) -> int:
        if (self._was(f"{prefix}link.{link}.state") or 1) != 1:
            return 0
        own = self._was(f"{prefix}link.{link}.{way}_bytes_per_s")
        if own is not None:
            return own
        total = self._was(f"{prefix}nvlink_{way}_bytes_per_s") or 0
        return total // (self._was(f"{prefix}nvlink_count") or 1)

    def _carry(self, key: str, rate: int, age_s: float, absent: int | None = None) -> None:
        was = self._was(key)
        base = absent if was is None else was
        set_anew = self.values.get(key) != self._published.get(key)
        if base is not None and rate and not set_anew:
            self.values[key] = str(base + int(rate * age_s))

    def _was(self, key: str) -> int | None:
        text = self._published.get(key, "n/a")
        return None if text == "n/a" else int(text, 0)


def _dotted(number: int | None) -> str:
    return "" if number is None else f".{number}"


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
        CompilerMissing: there is no C compiler.
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
