"""What slurmrestd and the `--json` of Slurm's commands answer, and what the accounting lists."""

from __future__ import annotations

import base64
import gzip
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.hostlist import is_job_id
from gpumon.model.text import plain
from gpumon.sources.slurm.accounting.commands import USE_FIELDS, parse_use
from gpumon.sources.slurm.accounting.jobstats import read_summary
from gpumon.sources.slurm.accounting.json import read_ended
from gpumon.sources.slurm.accounting.text import FIELDS, OLD_FIELDS, parse_ended
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json import cluster_name, values
from gpumon.sources.slurm.json.jobs import read_jobs
from gpumon.sources.slurm.json.nodes import read_nodes
from gpumon.sources.slurm.json.site import read_partitions, read_reservations
from gpumon.sources.slurm.poll.queue import records_of
from gpumon.sources.slurm.rest import client
from gpumon.sources.slurm.rest import failures as rest_failures
from tests.fuzz import mutation, oracle, samples
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from random import Random

_JSON: Final = "sources/slurm/json/"
_ACCOUNTING: Final = "sources/slurm/accounting/"
NOW: Final = 1_795_260_000.0

WHOLE: Final = (
    '{"jobs": [{"job_id": 3}], "errors": [], "last_update": 1795256605}',
    '{"nodes": [], "errors": [{"error": "Unable to contact slurm controller", "error_number": 1007}]}',
    '{"jobs": [], "errors": [{"description": "Authentication", "error_number": 1007, "error": "x"}],'
    '"warnings": [{"description": "slurmdb_connection failed"}], "meta": {"slurm": {"cluster": "Lab"}}}',
    '{"partitions": [{"name": "gpu"}], "errors": [{"description": "Slurm accounting storage is disabled",'
    ' "error": "from slurm accounting storage", "error_number": 7000}]}',
)
WAITING: Final = (
    "0x0F3",
    "0x" + "1" * 30 + "%2",
    "2-7%2",
    "0x" + "842108421" * 9,
    "0xFFF%1",
    "(null)",
)
VALUES: Final = (
    '{"set": true, "infinite": false, "number": 7}',
    '["RUNNING", "COMPLETING"]',
    '"PENDING+REQUEUED"',
    "1795256605",
    '"1795256605"',
    '{"current": ["RUNNING"]}',
    "[[1], {}]",
    '"7.25"',
    "null",
)
NODE: Final = (
    '{"nodes": {"n1": {"cpus": 16, "used_memory": 42949672960, "total_time": 7200.5, "gpu_used_memory":'
    ' {"0": 32212254720, "3": 10737418240}, "gpu_utilization": {"0": 80.0, "3": 4}}}, "gpus": 2}',
    '{"nodes": {"n1": {"used_memory": 1, "total_time": 2}, "n2": {"used_memory": 1, "total_time": 2}}}',
)
USE: Final = tuple(
    "|".join(row) + "|"
    for row in (
        USE_FIELDS,
        (
            "3.0",
            "8",
            "01:02:03",
            "112488K",
            "0",
            "cpu=00:00:01,gres/gpumem=51.54M,gres/gpuutil=87,mem=5M",
        ),
        ("3.batch", "1", "1-00:00:03.5", "51.54M", "7200", "mem=5M"),
    )
)


def _listed(kind: str, read: Any, check: Any) -> Target:
    """A list of records as the answer holds it."""

    def make(rng: Random) -> str:
        count = rng.choice((1, 1, 1, 2))
        made = [mutation.tree(rng, samples.members(kind)) for _ in range(count)]
        if kind == "jobs" and isinstance(made[0], dict) and rng.random() < 0.15:
            made[0]["array_job_id"] = made[0].get("array_job_id") or 6
            made[0]["array_task_string"] = mutation.text(rng, WAITING, "", 1)
            made[0].pop("array_task_id", None)
        return mutation.dumped(rng, made)

    def run(given: str) -> None:
        found = _loaded(given)
        for one in read(found if isinstance(found, list) else [found]):
            check(one)

    module = {"jobs": "jobs.py", "nodes": "nodes.py"}.get(kind, "site.py")
    return Target(f"json.{kind}", make, run, (_JSON + module,))


def _loaded(given: str) -> Any:
    """As the product takes it: what is not JSON comes no further."""
    try:
        return values.parse_object(b'{"listed": ' + given.encode("utf-8", "surrogatepass") + b"}")[
            "listed"
        ]
    except (values.NotAnObjectError, KeyError):
        return []


def _site(given: str) -> None:
    found = _loaded(given)
    listed = found if isinstance(found, list) else [found]
    for one in read_partitions(listed).partitions:
        oracle.record(one)
    for other in read_reservations(listed, NOW).reservations:
        oracle.record(other)


def _site_made(rng: Random) -> str:
    pool = (*samples.members("partitions"), *samples.members("reservations"))
    return mutation.dumped(rng, [mutation.tree(rng, pool)])


def _reply_made(rng: Random) -> bytes:
    text = mutation.dumped(rng, mutation.tree(rng, WHOLE))
    return mutation.encoded(rng, rng.choice(("", "", "Welcome\n", "<html>")) + text)


def _reply(given: bytes) -> None:
    """A whole answer, by the commands' way and by slurmrestd's."""
    text = given.decode("utf-8", "replace")
    asker: Any = SimpleNamespace(_clock=SimpleNamespace(now=lambda: NOW))
    for kind in ("job", "node", "partition"):
        try:
            records_of(text, kind, "squeue")
        except CommandFailedError as failed:
            oracle.well_formed(failed.error)
    for status in (200, 500, 304):
        try:
            listed = client.RestClient._judged(
                asker,
                "jobs",
                client._Reply(status, given, ""),
                None,
                5,
            )
        except CommandFailedError as failed:
            oracle.well_formed(failed.error)
        else:
            client._is_unchanged("jobs", listed)
    try:
        answer = values.parse_object(given)
    except values.NotAnObjectError:
        return
    oracle.well_formed(plain(cluster_name.of_answer(answer)))
    oracle.well_formed(rest_failures.remarks("jobs", answer))
    rest_failures.is_of_accounting_only(answer)
    oracle.well_formed(rest_failures.reported_errors("jobs", 500, answer, None, NOW))


def _value(given: str) -> None:
    found = _loaded(given)
    oracle.well_formed((values.number(found), values.whole(found), values.instant(found)))
    oracle.well_formed(values.minutes_s(found))
    oracle.well_formed(values.flags(found))
    oracle.well_formed(values.harmless({"a": found}, "a"))
    values.texts(found)
    if isinstance(found, dict):
        values.records(found, "number")


def _ended(runs: Any) -> None:
    for one in runs:
        oracle.well_formed(one)
        if not is_job_id(one.job.job_id):
            raise oracle.BrokenError(one.job.job_id)
        oracle.record(one.job)
        oracle.well_formed((one.gpu_idle_seconds, one.mem_used_ratio, one.cpu_used_ratio))


def _sacct_rows() -> tuple[str, ...]:
    (text,) = samples.answers("ended")
    return tuple(text.split("\n"))


GATHERED: Final = {
    "JobIDRaw": "9.batch",
    "JobID": "9.batch",
    "State": "COMPLETED",
    "Elapsed": "01:00:00",
    "NTasks": "1",
    "TotalCPU": "1-02:03:04.5",
    "MaxRSS": "51.54M",
    "ConsumedEnergyRaw": "7200000",
    "ExitCode": "0:9",
    "TRESUsageInTot": "cpu=00:00:01,mem=10G,gres/gpumem=51540M,gres/gpuutil=87",
}
HEAD: Final = GATHERED | {
    "JobIDRaw": "9",
    "JobID": "9",
    "User": "ada",
    "NodeList": "gpu[01-02]",
    "End": "1795256608",
    "AllocTRES": "billing=8,cpu=8,gres/gpu=4,mem=64G,node=2",
    "State": "CANCELLED by 7002",
}


def _sacct_made(rng: Random) -> str:
    titles, *rows = _sacct_rows()
    if rng.random() < 0.3:
        used = (
            "".join(row.get(field, "") + "@5eed@" for field in FIELDS) for row in (HEAD, GATHERED)
        )
        rows = ["\n".join(used), *rows[:2]]
    if rng.random() < 0.3:
        rows = [row[: -len("@5eed@")] + rng.choice(SUMMARIES) + "@5eed@" for row in rows if row]
    if rng.random() < 0.1:
        titles = "@5eed@".join((*OLD_FIELDS, ""))
    text = mutation.text(rng, rows, "\n", 4)
    return text if rng.random() < 0.02 else f"{titles}\n{text}{rng.choice(('', chr(10)))}"


def _sacct(given: str) -> None:
    for fields in (FIELDS, OLD_FIELDS):
        found = parse_ended(given, "@5eed@", fields)
        if found is not None:
            _ended(found.jobs)
            found.within(0.0, NOW)


def _ended_json(given: str) -> None:
    found = _loaded(given)
    _ended(read_ended(found if isinstance(found, list) else [found]).jobs)


def _summary(text: str | bytes) -> str:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return "JS1:" + base64.b64encode(gzip.compress(raw, 1, mtime=0)).decode()


SUMMARIES: Final = (*map(_summary, NODE), "JS1:None", "JS1:Short")


def _summary_made(rng: Random) -> str:
    if rng.random() < 0.1:
        return mutation.text(rng, SUMMARIES, "", 1)
    if rng.random() < 0.02:
        return _summary(b"[" * 2**22 + b" " * rng.randrange(8))
    return _summary(mutation.encoded(rng, mutation.dumped(rng, mutation.tree(rng, NODE))))


def _comment(given: str) -> None:
    oracle.well_formed(read_summary(given))
    text = "~@~".join((*FIELDS, "\n"))
    row = dict.fromkeys(FIELDS, "") | {
        "JobIDRaw": "9",
        "JobID": "9",
        "User": "ada",
        "State": "COMPLETED",
        "Elapsed": "01:00:00",
        "AllocTRES": "cpu=32,gres/gpu=2,mem=256G,node=2",
        "AdminComment": given,
    }
    found = parse_ended(text + "~@~".join((*row.values(), "\n")), "~@~")
    _ended(found.jobs if found else ())


def _use(given: str) -> None:
    oracle.well_formed(parse_use(given))


TARGETS: Final = (
    _listed("jobs", lambda found: read_jobs(found).jobs, oracle.job),
    _listed("nodes", lambda found: read_nodes(found).nodes, oracle.record),
    Target("json.site", _site_made, _site, (_JSON + "site.py",)),
    Target(
        "json.values",
        lambda rng: mutation.dumped(rng, mutation.tree(rng, VALUES)),
        _value,
        (_JSON + "values.py",),
    ),
    Target(
        "json.reply",
        _reply_made,
        _reply,
        (_JSON + "cluster_name.py", "sources/slurm/rest/failures.py"),
        aside=(
            "of_this_machine",
            "not_reached",
            "broken",
            "timed_out",
            "too_long",
            "not_accepted",
            "redirected",
            "no_version",
            "_expired",
            "ahead_of",
        ),
    ),
    Target(
        "accounting.sacct", _sacct_made, _sacct, (_ACCOUNTING + "text.py", _ACCOUNTING + "usage.py")
    ),
    Target(
        "accounting.sstat",
        lambda rng: (USE[0] + "\n" if rng.random() < 0.95 else "") + mutation.text(rng, USE),
        _use,
        (_ACCOUNTING + "commands.py",),
        aside=("SacctCommands",),
    ),
    Target(
        "accounting.json",
        lambda rng: mutation.dumped(rng, [mutation.tree(rng, samples.members("ended", "jobs"))]),
        _ended_json,
        (_ACCOUNTING + "json.py",),
    ),
    Target("accounting.jobstats", _summary_made, _comment, (_ACCOUNTING + "jobstats.py",)),
)
