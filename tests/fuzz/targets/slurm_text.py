"""What Slurm's commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.model.hostlist import expand, is_host_name, is_job_id, split_list
from gpumon.model.job_name import job_name
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.json import cluster_name
from gpumon.sources.slurm.text import gres, gres_conf, job_values, requests, times
from gpumon.sources.slurm.text.job_output import output_path
from gpumon.sources.slurm.text.jobs import parse_jobs
from gpumon.sources.slurm.text.nodes import parse_nodes
from gpumon.sources.slurm.text.site import parse_partitions, parse_reservations
from gpumon.sources.slurm.text.topology import parse_topology
from tests.fuzz import mutation, oracle, samples
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from random import Random

_TEXT: Final = "sources/slurm/text/"

GRES: Final = (
    "gpu:h100:2(IDX:0,2-3),shard:4",
    "gpu:tesla:2(S:0-1),gpu:kepler:2",
    "gres:gpu:8",
    "gres/gpu=16",
    "cpu=16,mem=64G,node=2,billing=16,gres/gpu=16,gres/gpu:h100=16",
    "gpu(IDX:0,2-3)",
    "gpu:2(CNT:2)",
    "shard:h100:4(2/4,2/4),mps:50,gpu:a100:1(IDX:N/A)",
    "(null)",
    "gpu",
    "gpu:1K",
    "gpu:-2",
    "none",
    "cpu=4,mem=2000G,node=2,gres/gpumem=80G,gres/gpuutil=100",
    "gres/gpu:a100:4",
    "gres/gpu:a100=4P",
)
HOSTS: Final = (
    "n[5-3]",
    "n[0-70000]",
    "a[0-65535][0-9]",
    "x" * 3000 + "[0-29999]",
    "gpu[01-03,07]",
    "gpu[01-03]-ib[0-1]",
    "a,b,c",
    "rack[1-2]node[001-128]",
    "(null)",
    "None assigned",
    "n[0-65535]",
    "n[1-2,4,6-9]x",
    "fe80::1%eth0",
    "gpu01.cluster.example",
    "host[001-128]",
    "a[]",
)
LABELS: Final = (
    "6",
    "6_1",
    "6_[2-7%2]",
    "7+1",
    "5_[3,5-9:2]",
    "5_[0-4095:7]",
    "101_[1-3,9]",
    "6_[1-1...]",
)
CONFS: Final = (
    "NodeName=gpu[01-04] Name=gpu Type=h100 File=/dev/nvidia[0-3]",
    "Name=gpu \\\n  File=/dev/nvidia3",
    "AutoDetect=nvml",
    "# ClusterName=lab",
    "Include /etc/slurm/more.conf",
    'Name="gpu" Count=4 Cores=0-7',
    "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21",
    "NodeName=n1 Name=shard Count=8",
    'ClusterName = "north"',
    "Name=gpu File=/dev/nvidia0 # NodeName=x",
    "name=GPU file=/dev/nvidia[2,0]",
)
VALUES: Final = (
    "1795256605",
    "2026-11-20T10:35:00",
    "Unknown",
    "N/A",
    "1-02:03:04",
    "02:03:04",
    "03:04",
    "UNLIMITED",
    "1-4",
    "cpu=4,mem=2000G,node=2",
    "mem=1.5T",
    "s8FXKTA79XAR00",
    "3:0",
    "0:9",
    "4294967294",
    "slurm-%6j_%4a-%x.%u.out",
    "/home/%u/%A_%a.log",
    "%%",
    "gpu[01-03]",
)
COMPLAINTS: Final = (
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "sacct: error: Slurm accounting storage is disabled",
    "scontrol: fatal: Could not establish a configuration source",
    "sacct: error: slurm_persist_conn_open: failed",
    "squeue: error: Invalid user",
    "No topology information available",
    "slurm_load_topo error: Header lengths are longer than data",
    "invalid entity: topology for keyword: show",
    "srun: error: Unable to create step",
)


def _jobs(given: str) -> None:
    found = parse_jobs(given)
    for job in found.jobs:
        oracle.job(job)


def _nodes(given: str) -> None:
    for node in parse_nodes(given).nodes:
        oracle.record(node)


def _site(given: str) -> None:
    for one in (*parse_partitions(given).partitions, *parse_reservations(given).reservations):
        oracle.record(one)


def _topology(given: str) -> None:
    oracle.well_formed(parse_topology(given))


def _gres(given: str) -> None:
    for read in (gres.gpus_held, gres.gpus_listed, gres.types_listed, gres.gpus_in_tres):
        _read(read, given)
    _read(lambda one: gres.types_asked((one, one)), given)


def _read(read: Any, given: str) -> None:
    try:
        found = read(given)
    except ValueError:
        return
    oracle.well_formed(found)


def _requests(given: dict[str, str]) -> None:
    for read in (lambda: requests.gpu_request(given, 8), lambda: requests.gpus_requested(given)):
        try:
            oracle.well_formed(read())
        except ValueError:
            continue


def _asked(rng: Random) -> dict[str, str]:
    keys = (*requests.PER.values(), "NumNodes", "NumTasks")
    pool = (*GRES, "1-4", "1-1", "2", "8")
    return {key: mutation.text(rng, pool, ",", 1) for key in keys if rng.random() < 0.6}


def _conf(given: str) -> None:
    found = gres_conf.parse(given)
    oracle.well_formed(found.notes)
    oracle.well_formed(found.gpu_files("gpu01"))
    oracle.well_formed(cluster_name.ahead_of(given))


def _values(given: str) -> None:
    oracle.well_formed((times.instant(given), times.duration_s(given), job_values.count(given)))
    tres = (job_values.memory_of_tres, job_values.cpus_of_tres, job_values.nodes_of_tres)
    oracle.well_formed([read(given) for read in tres])
    oracle.well_formed([job_values.exit_text(given, "FAILED"), job_values.sluid(given)])
    oracle.well_formed(job_values.exit_of_status(job_values.count(given)))
    oracle.well_formed(job_values.planned_nodes(given))
    values = {"j": "6", "A": "6", "x": given, "u": "ada", "a": given}
    output_path(given, given[:5], values)
    output_path(given, "/home", {"j": "6"})


def _hosts(given: str) -> None:
    is_host_name(given)
    is_job_id(given)
    for read in (split_list, expand):
        try:
            found = read(given)
        except ValueError:
            continue
        size = sum(map(len, found))
        if size > 64 * 2**20:
            raise oracle.BrokenError(f"{len(given)} characters become {size}")


def _label(given: tuple[str, str]) -> None:
    name = job_name(*given)
    other = job_name("6", "6_[2-7%2]")
    if name is None or other is None:
        return
    if len(name.tasks) > 1 << 16:
        raise oracle.BrokenError(f"{len(name.tasks)} ranges of tasks")
    oracle.well_formed((name, name.shown, name.whole.label, name.covers(other), other.covers(name)))
    oracle.well_formed((name.srun_words, name.sstat_words))


def _complaint(given: str) -> None:
    oracle.well_formed(failures.refused("squeue", 1, given))
    oracle.well_formed(failures.complained("squeue", given))
    oracle.well_formed(failures.garbage("squeue", "jobs", given))
    oracle.well_formed(failures.hop_failed("ssh", given))
    failures.means_no_topology(given)
    failures.is_of_another_kind(given)


TARGETS: Final = (
    Target(
        "slurm.jobs",
        lambda rng: mutation.text(rng, samples.records("jobs"), "\n\n"),
        _jobs,
        (_TEXT + "jobs.py", _TEXT + "records.py"),
    ),
    Target(
        "slurm.nodes",
        lambda rng: mutation.text(rng, samples.records("nodes"), "\n\n"),
        _nodes,
        (_TEXT + "nodes.py",),
    ),
    Target(
        "slurm.site",
        lambda rng: mutation.text(
            rng, (*samples.records("partitions"), *samples.records("reservations")), "\n\n"
        ),
        _site,
        (_TEXT + "site.py",),
    ),
    Target(
        "slurm.topology",
        lambda rng: mutation.text(rng, samples.answers("topology")),
        _topology,
        (_TEXT + "topology.py",),
    ),
    Target("slurm.gres", lambda rng: mutation.text(rng, GRES, ","), _gres, (_TEXT + "gres.py",)),
    Target("slurm.requests", _asked, _requests, (_TEXT + "requests.py",)),
    Target(
        "slurm.gres_conf",
        lambda rng: mutation.text(rng, CONFS),
        _conf,
        (_TEXT + "gres_conf.py",),
        aside=("find_and_read",),
    ),
    Target(
        "slurm.values",
        lambda rng: mutation.text(rng, VALUES, ",", 2),
        _values,
        (_TEXT + "times.py", _TEXT + "job_values.py", _TEXT + "job_output.py"),
    ),
    Target(
        "slurm.hostlist", lambda rng: mutation.text(rng, HOSTS, ","), _hosts, ("model/hostlist.py",)
    ),
    Target(
        "slurm.job_name",
        lambda rng: (rng.choice(("6", "5", "7", "0", "x")), mutation.text(rng, LABELS, ",", 2)),
        _label,
        ("model/job_name.py",),
    ),
    Target(
        "slurm.complaints",
        lambda rng: mutation.text(rng, COMPLAINTS),
        _complaint,
        ("sources/slurm/commands/failures.py",),
        aside=(
            "not_found",
            "not_started",
            "timed_out",
            "too_long",
            "stopped",
            "unread",
            "unplaced",
            "miscounted",
            "is_silence",
            "is_about_accounting",
            "accounting_words",
            "is_unreadable",
            "CommandFailedError",
        ),
    ),
)
