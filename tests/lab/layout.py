"""Names, addresses and paths of one lab. Several labs live side by side, told apart by a slot."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.release import (
    HOST,
    RELEASES,
    SLOTS,
    SLOTS_EACH,
    Release,
    chosen_version,
    first_slot,
)

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIGURATION = Path(__file__).parent / "etc"
HEAD = "head"
GPUS_PER_NODE = 8
# Minor numbers in PCI order; None: the same order.
NODES: dict[str, tuple[int, ...] | None] = {
    "gpu01": None,
    "gpu02": None,
    "gpu03": (2, 0, 3, 1, 7, 5, 4, 6),
}
MACHINES = (HEAD, *NODES)
USERS = {"alice": 7001, "bob": 7002}
REST_USER = ("slurmrest", 6998)
# The hierarchies that Slurm uses here: proctrack/cgroup the first, ConstrainDevices the second,
# jobacct_gather/cgroup the others.
CONTROLLERS = ("freezer", "devices", "cpuacct", "memory")
CGROUP_ROOT = Path("/sys/fs/cgroup")
# The most that a slot may be before a release adds its first one.
LAST_SLOT = SLOTS_EACH - 1
HIDDEN_IN_MACHINES = ("/tmp", "/run", "/dev", "/home", "/root", "/var", "/proc", "/sys")


@dataclass(frozen=True)
class Layout:
    """Where the lab of one slot keeps its files and what it calls its network and cgroups."""

    slot: int
    state: Path
    release: Release = field(default=RELEASES[HOST])

    def __post_init__(self) -> None:
        if not 0 <= self.slot < SLOTS:
            raise ValueError(f"the slot is a number from 0 to {SLOTS - 1}, not {self.slot}")
        for hidden in HIDDEN_IN_MACHINES:
            if self.state.resolve().is_relative_to(hidden):
                raise ValueError(f"{self.state}: the machines of the lab hide {hidden}")

    @classmethod
    def chosen(cls, slot: int = 0, version: str | None = None) -> Layout:
        """The layout that GPUMON_LAB_SLOT and GPUMON_LAB_STATE ask for, else that of `slot`.

        Args:
            slot: a number up to LAST_SLOT; one number serves all versions, side by side.
            version: of Slurm, else the one that GPUMON_LAB_VERSION asks for.
        """
        slot = int(os.environ.get("GPUMON_LAB_SLOT", slot))
        if not 0 <= slot <= LAST_SLOT:
            raise ValueError(f"the slot is a number from 0 to {LAST_SLOT}, not {slot}")
        release = RELEASES[version or chosen_version()]
        state = os.environ.get("GPUMON_LAB_STATE", f"/opt/gpumon-lab{slot}")
        suffix = "" if release.version == HOST else f"-{release.version}"
        return cls(slot + first_slot(release.version), Path(f"{state}{suffix}"), release)

    @property
    def bridge(self) -> str:
        """The host's end of the lab network."""
        return f"gmlab{self.slot}"

    @property
    def bridge_address(self) -> str:
        """Address of the machine that carries the lab, as its machines see it."""
        return f"10.77.{self.slot}.1"

    @property
    def cgroup(self) -> str:
        """Cgroup, below each controller, that holds the machines' cgroups."""
        return f"gpumon-lab{self.slot}"

    @property
    def shared(self) -> Path:
        """What all machines of the lab have in common: homes, users, Slurm's configuration."""
        return self.state / "shared"

    @property
    def cache(self) -> Path:
        """What outlives a lab: driver, empty database, keys, wheel."""
        return self.state / "cache"

    @property
    def venv(self) -> Path:
        """The virtual environment with gpumon, readable by every user of the lab."""
        return self.state / "venv"

    @property
    def workload(self) -> Path:
        """The pretend GPU program, at a path that every machine sees."""
        return self.shared / "workload.py"

    def machine(self, name: str) -> Path:
        """Private files of one machine."""
        return self.state / "machines" / name

    def var(self, name: str) -> Path:
        """What one machine sees as /var."""
        return self.machine(name) / "var"

    def driver_state(self, name: str) -> Path:
        """Folder of a node's stand-in driver: its state file and the contexts of its processes."""
        return self.var(name) / "lib" / "nvml-standin"

    def address(self, name: str) -> str:
        """IPv4 address of a machine."""
        return f"10.77.{self.slot}.{10 + MACHINES.index(name)}"

    def cable(self, name: str) -> str:
        """The host's end of a machine's network cable."""
        return f"gml{self.slot}-{name}"

    def cgroups(self, name: str = "") -> list[Path]:
        """One folder per controller: of a machine, or of the whole lab."""
        return [CGROUP_ROOT / controller / self.cgroup / name for controller in CONTROLLERS]
