"""The state file that the stand-in driver reads, and how to change it under a live driver."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.lab.standin.profiles import Values

XID_CRITICAL_ERROR = 0x8
NO_INSTANCE = 0xFFFFFFFF
"""The instance of a process on a GPU that is not cut."""

# Counter and the rate that drives it; milliwatts are millijoules per second.
_GPU_COUNTERS = {
    "energy_mj": "power_mw",
    "pcie_tx_bytes": "pcie_tx_bytes_per_s",
    "pcie_rx_bytes": "pcie_rx_bytes_per_s",
}


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

    def mig(self, gpu: int, instance: int, **values: object) -> None:
        """Sets keys of one MIG instance; an empty `uuid` takes it away."""
        self._put(f"gpu.{gpu}.mig.{instance}.", values)

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
        instance: tuple[int, int] | None = None,
        video_percent: tuple[int, int] = (0, 0),
    ) -> None:
        """Lists a process without a context; kind C compute, G graphics, M client of MPS.

        `instance` names the GPU instance and the compute instance that it runs in,
        `video_percent` how busy it keeps the encoder and the decoder.
        """
        mem = "n/a" if mem_bytes is None else str(mem_bytes)
        place = "{} {}".format(*(instance or (NO_INSTANCE, NO_INSTANCE)))
        video = "{} {}".format(*video_percent)
        line = f"{mem} {sm_percent} {mem_percent} {kind} {place} {video}"
        self.values[f"gpu.{gpu}.process.{pid}"] = line

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
        text = "".join(f"{key} {value}\n" for key, value in self.values.items())
        # A name may be bytes that are no text.
        scratch.write_text(text, encoding="utf-8", errors="surrogateescape")
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
        if self._was(f"{prefix}link.{link}.state") not in (None, 1):
            return 0
        own = self._was(f"{prefix}link.{link}.{way}_bytes_per_s")
        if own is not None:
            return own
        total = self._was(f"{prefix}nvlink_{way}_bytes_per_s") or 0
        return total // (self._was(f"{prefix}nvlink_count") or 1)

    def _carry(self, key: str, rate: int, age_s: float, absent: int | None = None) -> None:
        was = self._was(key)
        base = absent if was is None else was
        is_changed = self.values.get(key) != self._published.get(key)
        if base is not None and rate and not is_changed:
            self.values[key] = str(base + int(rate * age_s))

    def _was(self, key: str) -> int | None:
        text = self._published.get(key, "n/a")
        return None if text == "n/a" else int(text, 0)


def _dotted(number: int | None) -> str:
    return "" if number is None else f".{number}"
