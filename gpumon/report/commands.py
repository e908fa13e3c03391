"""The next command for a job, a rank, a GPU or a node: filled in, shown and copied, not run.

Every name that goes into a line is checked first, here: what the rules refuse appears in none.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gpumon.model.hostlist import is_host_name, is_job_id

MAX_PIDS: Final = 8
"""Processes of one GPU for which commands are listed."""

_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{4,72}")
_NAME: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.@+-]{0,63}")
"""Names of users, accounts, partitions and reservations that need no quotes."""


class Subject(NamedTuple):
    """What commands can be about; None: there is none, or it is not known."""

    job_id: str | None = None
    """Slurm's own number."""
    node: str | None = None
    uuid: str | None = None
    pids: tuple[int, ...] = ()
    """Processes on the node that compute on the GPU or are the rank."""
    group: tuple[str, str] | None = None
    """Kind and name of what holds jobs: a user, an account, a partition, a reservation."""

    def checked(self) -> Subject:
        """The same without names that a shell or a command could take for something else."""
        return Subject(
            self.job_id if self.job_id and is_job_id(self.job_id) else None,
            self.node if self.node and is_host_name(self.node) else None,
            self.uuid if self.uuid and _UUID.fullmatch(self.uuid) else None,
            tuple(pid for pid in self.pids if 0 < pid < 2**22)[:MAX_PIDS],
            self.group if self.group and _NAME.fullmatch(self.group[1]) else None,
        )

    @property
    def name(self) -> str | None:
        """What `copy` copies: the closest name that there is."""
        return self.uuid or self.job_id or self.node or (self.group[1] if self.group else None)


class Command(NamedTuple):
    """One line for a shell."""

    words: tuple[str, ...]
    about: str
    """job, rank, GPU, node or what holds jobs."""
    doc: str
    is_change: bool = False
    """Whether it changes something in the world."""

    @property
    def line(self) -> str:
        """The words as they are typed; none needs quotes."""
        return " ".join(self.words)


def commands_for(subject: Subject, *, with_changes: bool = False) -> tuple[Command, ...]:
    """The commands that make sense for a subject, those for what is closest first.

    Args:
        subject: What they are about; names that are not valid count as unknown.
        with_changes: Whether commands that change something are wanted, too.
    """
    job_id, node, uuid, pids, group = subject.checked()
    found: list[Command] = []
    if node is not None:
        for pid in pids:
            found += _of_process(node, str(pid))
    if node is not None and uuid is not None:
        found.append(
            Command(
                ("ssh", node, "nvidia-smi", "-q", "-i", uuid), "GPU", "All that the driver says."
            )
        )
    if job_id is not None:
        found += _of_job(job_id, node)
    if node is not None:
        found += _of_node(node, is_in_slurm=job_id is not None)
    if group is not None:
        found += _of_group(*group)
    if job_id is not None and with_changes:
        found += _changes(job_id)
    return tuple(found)


def _of_process(node: str, pid: str) -> list[Command]:
    return [
        Command(
            ("ssh", node, "py-spy", "dump", "--pid", pid),
            "rank",
            "Where the Python code stands now; as the same user, or with CAP_SYS_PTRACE.",
        ),
        Command(
            ("ssh", node, "py-spy", "record", "--pid", pid, "--duration", "30", "-o",
             f"rank-{pid}.svg"),
            "rank",
            "Profiles the Python code for half a minute into a flame graph on the node.",
        ),
        Command(
            ("ssh", node, "nsys", "profile", "--gpu-metrics-devices=all", "--duration=30", "-o",
             f"rank-{pid}", "sleep", "30"),
            "rank",
            "Samples the node's GPUs for half a minute beside it, where counters are not reserved "
            "for root; nsys follows only programs that it started.",
        ),
        Command(
            ("ssh", node, "cat", f"/proc/{pid}/status"),
            "rank",
            "State, threads and memory of the process.",
        ),
    ]  # fmt: skip


def _of_job(job_id: str, node: str | None) -> list[Command]:
    found = [
        Command(("scontrol", "-d", "show", "job", job_id), "job", "All that Slurm knows of it."),
        Command(("sstat", "-a", "-j", job_id), "job", "What its running steps have used so far."),
        Command(
            ("sacct", "-j", job_id, "-o", "jobid,state,exitcode,elapsed,alloctres%60"),
            "job",
            "How its steps ended.",
        ),
    ]
    if node is not None:
        shell = ("srun", f"--jobid={job_id}", "--overlap", "-w", node, "-n", "1", "--pty", "bash")
        found.append(Command(shell, "job", "A shell within the job's limits on this node."))
    return found


def _of_node(node: str, *, is_in_slurm: bool) -> list[Command]:
    found = [
        Command(("ssh", node, "ncclras", "-v"), "node", "What NCCL's ranks say of each other."),
        Command(
            ("ssh", node, "nsys", "sessions", "list"),
            "node",
            "Profiler sessions; nsys follows only what was started under it.",
        ),
        Command(("ssh", node, "nvidia-smi", "topo", "-m"), "node", "How GPUs and NICs are wired."),
        Command(("ssh", node, "dmesg", "-T"), "node", "The kernel's log, with the driver's Xids."),
        Command(("ssh", node), "node", "A shell; the key ! opens it."),
    ]
    if is_in_slurm:
        found.append(Command(("scontrol", "show", "node", node), "node", "What Slurm knows of it."))
    return found


def _of_group(kind: str, name: str) -> list[Command]:
    if kind in ("user", "account"):
        option = "-u" if kind == "user" else "-A"
        fields = "jobid,user,state,exitcode,elapsed,alloctres%60"
        everyone = () if kind == "user" else ("-a",)
        return [
            Command(("squeue", option, name), kind, "Its jobs, running and waiting."),
            Command(
                ("sacct", "-X", *everyone, option, name, "-S", "now-1days", "-o", fields),
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
        Command(("scontrol", "show", kind, name), kind, "All that Slurm knows of it."),
        Command(("squeue", option, name), kind, "Its jobs, running and waiting."),
    ]
    if kind == "partition":
        found.append(
            Command(("sinfo", "-N", "-l", "-p", name), kind, "Its nodes and their states.")
        )
    return found


def _changes(job_id: str) -> list[Command]:
    return [
        Command(("scontrol", "requeue", job_id), "job", "Ends it and queues it anew.", True),
        Command(("scancel", job_id), "job", "Ends it.", True),
    ]
