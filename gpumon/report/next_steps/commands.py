"""The next command for a job, a rank, a GPU or a node: filled in, shown and copied, not run.

Every name that goes into a line is checked first, here: what the rules refuse appears in none.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from gpumon.model.cluster_names import ASK_A_CLUSTER, asking
from gpumon.model.hostlist import is_host_name
from gpumon.report.next_steps.roads import NO_WAYS

if TYPE_CHECKING:
    from gpumon.model.job_name import JobName
    from gpumon.report.next_steps.roads import Ways
    from gpumon.sources.probes.road import Road

MAX_PIDS: Final = 8
"""Processes of one GPU for which commands are listed."""

_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{4,72}")
_USED: Final = "What its running steps have used so far."
_NAME: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.@+-]{0,63}")
"""Names of users, accounts, partitions and reservations that need no quotes."""


class Subject(NamedTuple):
    """What commands can be about; None: there is none, or it is not known."""

    job: JobName | None = None
    node: str | None = None
    uuid: str | None = None
    pids: tuple[int, ...] = ()
    """Processes on the node that compute on the GPU or are the rank."""
    group: tuple[str, str] | None = None
    """Kind and name of what holds jobs: a user, an account, a partition, a reservation."""
    job_state: str = ""
    """The queue's record of the job; empty where it is over, or the queue does not list it."""

    def checked(self) -> Subject:
        """The same without names that a shell or a command could take for something else."""
        return Subject(
            job=self.job,
            node=self.node if self.node and is_host_name(self.node) else None,
            uuid=self.uuid if self.uuid and _UUID.fullmatch(self.uuid) else None,
            pids=tuple(pid for pid in self.pids if 0 < pid < 2**22)[:MAX_PIDS],
            group=self.group if self.group and _NAME.fullmatch(self.group[1]) else None,
            job_state=self.job_state,
        )

    @property
    def name(self) -> str | None:
        """What `copy` copies: the closest name that there is."""
        job = self.job.label if self.job else ""
        return self.uuid or job or self.node or (self.group[1] if self.group else None)

    @property
    def is_pasted_safely(self) -> bool:
        """Whether its name may be in a command, by the same rules as in those listed here."""
        return self.name == self.checked().name


class Change(NamedTuple):
    """What a command does to a job."""

    kind: Literal["cancel", "requeue"]
    job: JobName
    """The job as the command names it: of a heterogeneous one mostly the whole."""


class Command(NamedTuple):
    """One line for a shell."""

    words: tuple[str, ...]
    about: str
    """job, rank, GPU, node or what holds jobs; of what a finding advises, who may run it."""
    doc: str
    change: Change | None = None
    """What it changes in the world; None: nothing."""
    road: Road | None = None
    """To where Slurm's commands are; None: it is no such command, or they are here."""

    @property
    def line(self) -> str:
        """The words as they are typed here: only lists of tasks need quotes."""
        if self.road is None:
            return self.name
        return shlex.join(self.road.typed(*self.words, has_terminal="--pty" in self.words))

    @property
    def name(self) -> str:
        """The words as they are typed where they are run."""
        return shlex.join(self.words)


def commands_for(
    subject: Subject, ways: Ways = NO_WAYS, *, with_changes: bool = False
) -> tuple[Command, ...]:
    """The commands that make sense for a subject, those for what is closest first.

    Args:
        subject: What they are about; names that are not valid count as unknown.
        ways: To its node, without which there is no command on it, and to Slurm's commands.
        with_changes: Whether commands that change something are wanted, too.
    """
    job, node, uuid, pids, group, state = subject.checked()
    found: list[Command] = []
    on_node = ways.node if node is not None else None
    if on_node is not None:
        for pid in pids:
            found += _of_process(on_node, str(pid))
    if on_node is not None and uuid is not None:
        words = on_node.typed("nvidia-smi", "-q", "-i", uuid)
        found.append(Command(words, "GPU", "Everything that the driver reports."))
    if job is not None:
        found += slurm_commands(ways, _of_job(job, node))
    if on_node is not None:
        found += _of_node(on_node)
    if node is not None and job is not None:
        shown = ("scontrol", "show", "node", node)
        found += slurm_commands(ways, [Command(shown, "node", "What Slurm knows about it.")])
    if group is not None:
        found += slurm_commands(ways, _of_group(*group))
    if job is not None and with_changes and not why_unchanged(subject):
        found += slurm_commands(ways, _changes(job, state))
    return tuple(found)


def slurm_commands(ways: Ways, commands: list[Command]) -> list[Command]:
    """Commands of Slurm's as they are typed here, about the cluster in view."""
    if not ways.cluster:
        return [command._replace(road=ways.slurm) for command in commands]
    return [
        command._replace(road=ways.slurm, words=asking(ways.cluster, command.words))
        for command in commands
        # sstat asks its own cluster only, where the job's number may be another job's.
        if command.words[0] in ASK_A_CLUSTER
    ]


def _of_process(road: Road, pid: str) -> list[Command]:
    return [
        Command(
            road.typed("py-spy", "dump", "--pid", pid),
            "rank",
            "Where the Python code is now; as the same user, or with CAP_SYS_PTRACE.",
        ),
        Command(
            road.typed("py-spy", "record", "--pid", pid, "--duration", "30", "-o",
                       f"rank-{pid}.svg"),
            "rank",
            "Profiles the Python code for half a minute into a flame graph on the node.",
        ),
        Command(
            road.typed("nsys", "profile", "--gpu-metrics-devices=all", "--duration=30", "-o",
                       f"rank-{pid}", "sleep", "30"),
            "rank",
            "Samples the node's GPUs for half a minute beside it, where counters are not reserved "
            "for root; nsys follows only programs that it started.",
        ),
        Command(
            road.typed("cat", f"/proc/{pid}/status"),
            "rank",
            "State, threads and memory of the process.",
        ),
    ]  # fmt: skip


def _of_job(job: JobName, node: str | None) -> list[Command]:
    is_one_task = bool(job.tasks) and job.number == job.leader
    used = "What its batch step has used so far." if is_one_task else _USED
    found = [
        Command(
            ("scontrol", "-d", "show", "job", job.shown),
            "job",
            "Everything that Slurm knows about it.",
        )
    ]
    if job.waits_together:
        # They have no steps, and sacct has no form for them that leaves their array's others out.
        return found
    found += [
        Command(("sstat", *job.sstat_words), "job", used),
        Command(
            ("sacct", "-D", "-j", job.label, "-o", "jobid,state,exitcode,elapsed,alloctres%60"),
            "job",
            "How its runs and their steps ended.",
        ),
    ]
    if node is not None:
        shell = ("srun", *job.srun_words, "--overlap", "-w", node, "-n", "1", "--pty", "bash")
        found.append(Command(shell, "job", "A shell within the job's limits on this node."))
    return found


def _of_node(road: Road) -> list[Command]:
    return [
        Command(road.typed("ncclras", "-v"), "node", "What NCCL's ranks report about each other."),
        Command(
            road.typed("nsys", "sessions", "list"),
            "node",
            "Profiler sessions; nsys follows only what was started under it.",
        ),
        Command(road.typed("nvidia-smi", "topo", "-m"), "node", "How GPUs and NICs are wired."),
        Command(road.typed("dmesg", "-T"), "node", "The kernel's log, with the driver's Xids."),
        Command(road.typed(), "node", "A shell; the key ! opens it."),
    ]


def _of_group(kind: str, name: str) -> list[Command]:
    if kind in ("user", "account"):
        option = "-u" if kind == "user" else "-A"
        fields = "jobid,user,state,exitcode,elapsed,alloctres%60"
        everyone = () if kind == "user" else ("-a",)
        return [
            Command(("squeue", option, name), kind, "Its jobs, running and waiting."),
            Command(
                ("sacct", "-D", "-X", *everyone, option, name, "-S", "now-1days", "-o", fields),
                kind,
                "How its jobs of the last day ended, and what they held.",
            ),
            Command(
                ("sshare", *everyone, option, name),
                kind,
                "Its fair share, which decides who waits.",
            ),
        ]
    option = "-p" if kind == "partition" else "-R"
    found = [
        Command(("scontrol", "show", kind, name), kind, "Everything that Slurm knows about it."),
        Command(("squeue", option, name), kind, "Its jobs, running and waiting."),
    ]
    if kind == "partition":
        found.append(
            Command(("sinfo", "-N", "-l", "-p", name), kind, "Its nodes and their states.")
        )
    return found


def why_unchanged(subject: Subject) -> str:
    """Why a job is neither to be cancelled nor requeued; empty: it may be, or there is none."""
    if subject.job is None:
        return ""
    if subject.job.is_cut:
        return "Slurm cuts this list of waiting tasks: no command could name just them."
    if not subject.job_state:
        # Where tasks were cancelled together, Slurm calls them by their array's number alone.
        return "The job is not waiting or running: there is nothing to cancel."
    return ""


def _changes(job: JobName, state: str) -> list[Command]:
    if not job.component:
        found = [
            _change("cancel", job, "Ends these tasks." if job.waits_together else "Ends it."),
        ]
        if state != "PENDING":
            found.insert(0, _change("requeue", job, "Ends it and queues it again."))
        return found
    found = [_change("cancel", job.whole, f"Ends all components of job {job.leader}.")]
    if state != "PENDING":
        text = f"Ends all components of job {job.leader} and queues them again."
        found.insert(0, _change("requeue", job.whole, text))
        # Of the first one Slurm takes it for the whole, of one that waits for nothing.
        if job.component != "0":
            text = "Ends this component, the others go on; older versions of Slurm refuse."
            found.append(_change("cancel", job, text))
    return found


def _change(kind: Literal["cancel", "requeue"], job: JobName, doc: str) -> Command:
    words = ("scancel",) if kind == "cancel" else ("scontrol", "requeue")
    return Command((*words, job.label), "job", doc, Change(kind, job))
