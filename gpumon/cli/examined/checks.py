"""What the doctor looks at, one finding a line with the way out."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.cli.configuration import ConfigurationError, load, places
from gpumon.cli.examined.check import ABSENT, FAULT, LESS, OK, Check
from gpumon.cli.examined.configured import problems_beyond
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.fault import GPU_PROCESSES
from gpumon.model.missing import Reason
from gpumon.model.text import plain
from gpumon.report.facts.healthy_nodes import VITAL
from gpumon.report.text import units
from gpumon.sources.address import Sampling, Target
from gpumon.sources.open import open_source
from gpumon.sources.slurm.text import gres_conf
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.model.records.cluster import Gpu
    from gpumon.model.records.tick import Tick

TESTED_BINDING: Final = "13"
"""Major version of nvidia-ml-py that the tests run with."""
TESTED_DRIVERS: Final = (470, 580)
"""Oldest and newest driver branch whose answers the tests replay; 580 is that of an H200."""


def binding() -> Check:
    """Whether `import pynvml` gives the official binding, not the old package of that name."""
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        return Check("binding", FAULT, "nvidia-ml-py is not installed", "reinstall gpumon")
    try:
        version = metadata.version("nvidia-ml-py")
    except metadata.PackageNotFoundError:
        version = ""
    if spec.submodule_search_locations is not None or not version:
        return Check(
            "binding",
            FAULT,
            f"the old package `pynvml` shadows nvidia-ml-py ({spec.origin})",
            "pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py",
        )
    note = "" if version.partition(".")[0] == TESTED_BINDING else f", tested with {TESTED_BINDING}"
    return Check("binding", OK, f"nvidia-ml-py {plain(version)}{note}")


def sample_of(target: Target) -> Tick:
    """One look at a target, at every job and node of it."""
    clock = SystemClock()
    sampling = Sampling(1.0, is_single=True, is_wanted=lambda _job: True)
    sampler = Sampler([open_source(target, sampling, clock)], clock, 1.0)
    try:
        return sampler.sample_for(0.0)
    finally:
        sampler.close()


def driver() -> Iterator[Check]:
    """What the local probe says of this machine's driver and GPUs."""
    yield from of_driver(sample_of(Target("local", "local")))


def of_driver(tick: Tick) -> Iterator[Check]:
    """What a look at this machine says of its driver, GPUs and permissions."""
    states = []
    for error in tick.errors:
        if error.where.endswith(GPU_PROCESSES):
            continue
        states.append(ABSENT if "Shared Library Not Found" in error.message else FAULT)
        yield Check("driver", states[-1], f"{error.where}: {error.message}", error.hint)
    gpus = [gpu for gpu in tick.gpus.values() if is_read(gpu)]
    if not gpus:
        return
    block = next(iter(tick.nodes.values())).block
    version = block.label("driver_version", 0) if block else None
    names = sorted({gpu.label("name") or "unknown GPU" for gpu in gpus})
    # What is at fault stands above it: the rest answers, which is less than all.
    is_whole = FAULT not in states
    count = f"{_gpus(tick)}{'' if is_whole else ' answer'}"
    message = f"{version or 'unknown'}{_tested(version)}, {count}: {', '.join(names)}"
    yield Check("driver", OK if is_whole else LESS, message)
    yield gpm(gpus)
    yield from persistence(gpus)
    refused = [gpu for gpu in gpus if gpu.reason("process_count") is Reason.NO_PERMISSION]
    if refused:
        message = f"the driver hides the processes of {units.gpus(len(refused))} from this user"
        yield Check("gpu processes", LESS, message, "root sees them")
    hidden = [process for gpu in gpus for process in gpu.processes if process.why is not None]
    if hidden:
        yield Check(
            "gpu ranks",
            LESS,
            f"the ranks of {len(hidden)} GPU processes are hidden: {hidden[0].why}",
            "their owner or root sees them; gpumon shows them without rank",
        )


def _gpus(tick: Tick) -> str:
    """How many GPUs are read, and of how many where some are not."""
    total, read = len(tick.gpus), sum(map(is_read, tick.gpus.values()))
    whole = units.gpus(total)
    return whole if read == total else f"{read:,} of {whole}"


def _tested(version: str | None) -> str:
    """A remark on a driver of a branch that the tests know nothing of."""
    branch = (version or "").partition(".")[0]
    if not branch.isdecimal() or TESTED_DRIVERS[0] <= int(branch) <= TESTED_DRIVERS[1]:
        return ""
    age = "older" if int(branch) < TESTED_DRIVERS[0] else "newer"
    return f" ({age} than those tested, {TESTED_DRIVERS[0]} to {TESTED_DRIVERS[1]})"


def is_read(gpu: Gpu) -> bool:
    """Whether the driver gives any value of a GPU that every GPU has."""
    return any(gpu.value(key) is not None for key in VITAL)


def gpm(gpus: Sequence[Gpu]) -> Check:
    """Whether the driver gives performance counters, on which most verdicts rest."""
    reasons = [gpu.reason("sm_active_ratio") for gpu in gpus]
    refused = reasons.count(Reason.NO_PERMISSION)
    lacking = reasons.count(Reason.NOT_SUPPORTED)
    if refused:
        return Check(
            "GPM",
            LESS,
            f"refused on {units.gpus(refused)}: SM, occupancy, tensor and memory activity are "
            "hidden",
            "ask an administrator to set NVreg_RestrictProfilingToAdminUsers=0 for the module "
            "nvidia",
        )
    if lacking:
        some = f"{lacking} of {units.gpus(len(reasons))} {'has' if lacking == 1 else 'have'}"
        return Check(
            "GPM",
            ABSENT,
            f"{some} none (Hopper and newer do): whether a kernel runs is known, not how busy the "
            "SMs are",
        )
    return Check("GPM", OK, "performance counters answer")


def persistence(gpus: Sequence[Gpu]) -> Iterator[Check]:
    """Whether the driver stays loaded while nobody uses it."""
    modes = [gpu.value("persistence_mode") for gpu in gpus]
    off = modes.count(0)
    if off:
        yield Check(
            "persistence",
            LESS,
            f"off on {units.gpus(off)}: the driver unloads between users, so first answers take "
            "seconds and counters restart",
            "ask an administrator to enable nvidia-persistenced, or to run nvidia-smi -pm 1",
        )
    elif modes.count(1):
        yield Check("persistence", OK, "on")


def slurm() -> Iterator[Check]:
    """Whether Slurm's commands answer, and whether gres.conf can be read."""
    if shutil.which("scontrol") is None:
        yield Check("slurm", ABSENT, "no scontrol on PATH", "load the site's slurm module")
        return
    tick = sample_of(Target("slurm", "slurm", nodes_by="none"))
    for error in tick.errors:
        yield Check("slurm", FAULT, f"{error.where}: {error.message}", error.hint)
    if tick.queue_at is None:
        return
    jobs, nodes = units.counted(len(tick.jobs), "job"), units.counted(len(tick.nodes), "node")
    yield Check("slurm", OK, f"{jobs}, {nodes}")
    if gres_conf.find_and_read(os.environ) is gres_conf.NOT_FOUND:
        yield Check(
            "gres.conf",
            ABSENT,
            "not readable here, so Slurm's GPU indices have no device files",
            "jobs' GPUs are then known only by their processes, or if a job holds a whole node",
        )
    else:
        yield Check("gres.conf", OK, "readable: Slurm's GPU indices have device files")


def ssh() -> Check:
    """Which ssh is used to reach nodes."""
    program = shutil.which("ssh")
    if program is None:
        return Check("ssh", ABSENT, "no ssh on PATH", "apt install openssh-client")
    done = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=10, check=False)
    return Check("ssh", OK, plain((done.stderr or done.stdout).strip()))


def configuration() -> Iterator[Check]:
    """Which files settings are read from, and what is wrong with them."""
    what = "config"
    read = [place.path for place in places() if Path(place.path).exists()]
    for path in read:
        yield Check(what, OK, f"{plain(path)} is read")
    try:
        problems = problems_beyond(load())
    except ConfigurationError as error:
        problems = error.problems
    for problem in problems:
        yield Check(what, FAULT, plain(problem), "gpumon config validate")
    if not read and not problems:
        yield Check(what, ABSENT, "no file; every setting is its default", "gpumon config init")


def target(asked: Target) -> Iterator[Check]:
    """Whether every node of a target answers, or a recording can be read."""
    if asked.scheme == "recording":
        yield _recording(asked)
        return
    tick = sample_of(asked)
    for error in tick.errors:
        state = LESS if error.where.endswith(GPU_PROCESSES) else FAULT
        yield Check(asked.url, state, f"{error.where}: {error.message}", error.hint)
    answered = [node for node in tick.nodes.values() if node.taken_at is not None]
    if answered or tick.queue_at is not None:
        verb = "answers" if len(tick.nodes) == 1 else "answer"
        nodes = units.counted(len(tick.nodes), "node")
        message = f"{len(answered):,} of {nodes} {verb}, {_gpus(tick)}"
        # What is at fault stands above it; what answers beside it is told, and is not all.
        yield Check(asked.url, LESS if tick.errors else OK, message)


def _recording(asked: Target) -> Check:
    from gpumon.sources.recording.decode import RecordingError
    from gpumon.sources.recording.source import Recording

    try:
        recording = Recording(Path(asked.path))
        lasts_s = recording.span.end - recording.span.start
    except (RecordingError, OSError) as error:
        return Check(asked.url, FAULT, str(error))
    return Check(
        asked.url, OK, f"{units.seconds(lasts_s)} of {' '.join(recording.targets)} are recorded"
    )
