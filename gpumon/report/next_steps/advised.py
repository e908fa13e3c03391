"""The commands in what findings advise: the next step, ready to run."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.finding_classes import class_of
from gpumon.report.next_steps.commands import Command, slurm_commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumon.model.finding import Finding
    from gpumon.report.next_steps.roads import Ways

MOST_FINDINGS: Final = 8
"""Findings whose advice is listed: a job of a thousand ranks may have as many of them."""

OWNER: Final = "owner"
ADMIN: Final = "admin"
"""Who can run a command: who owns the job, or only who runs the machine."""

_SLURM: Final = frozenset(
    {"sacct", "scancel", "scontrol", "sinfo", "squeue", "sshare", "srun", "sstat"}
)
_SUBMITTING: Final = frozenset({"salloc", "sbatch", "torchrun"})
"""They begin a job: an option of the user's own line, wherever that is typed."""
_ON_NODE: Final = frozenset({"dcgmi", "dmesg", "nvidia-smi", "py-spy"})
_STEP: Final = re.compile(
    rf"(?P<lead>.*?): (?P<line>(?:{'|'.join(sorted(_SLURM | _SUBMITTING | _ON_NODE))}) .+)\Z"
)
_END: Final = re.compile(r"[;,] |\.\Z| …| or ")
"""Where a command in a sentence ends."""
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_BLANK: Final = re.compile(r"\b(?:ID|PID|N|FILE|NODE)\b")
"""A place that is still to be filled in."""


class Advice(NamedTuple):
    """One step of a finding that is a command."""

    lead: str
    """What it is for."""
    words: tuple[str, ...]


def commands_of(findings: Sequence[Finding], ways: Ways) -> tuple[Command, ...]:
    """Their commands: those for the job's owner, then those that only an admin may run.

    Args:
        findings: What is claimed, what matters most first.
        ways: To the node in question, and to Slurm's commands.
    """
    first = findings[:MOST_FINDINGS]
    found = [
        *_filled((one, step, OWNER) for one in first for step in one.advice),
        *_filled((one, step, ADMIN) for one in first for step in one.machine_advice),
    ]
    found.sort(key=lambda command: command.about == ADMIN)
    by_line = {
        command.line: command for offered in reversed(found) for command in _there(offered, ways)
    }
    return tuple(reversed(by_line.values()))


def advice_of(step: str) -> Advice | None:
    """The command in a step; None: there is none, or a place in it is not filled in."""
    match = _STEP.match(step)
    if match is None or not step.isprintable():
        return None
    line = match["line"]
    # What is in quotes ends nothing.
    end = _END.search(_QUOTED.sub(lambda quoted: "_" * len(quoted[0]), line))
    line = line if end is None else line[: end.start()]
    try:
        words = tuple(shlex.split(line))
    except ValueError:
        return None
    if len(words) < 2 or any(_BLANK.search(word) for word in words):
        return None
    return Advice(match["lead"], words)


def _filled(steps: Iterable[tuple[Finding, str, str]]) -> Iterator[Command]:
    for finding, step, who in steps:
        advice = advice_of(step)
        if advice is not None:
            # Slurm lets only its owner start a step in a job, also of advice to administrators.
            is_step = advice.words[0] == "srun" and any(
                word.startswith("--jobid=") for word in advice.words
            )
            who = OWNER if is_step else who
            yield Command(advice.words, who, f"{class_of(finding).title}: {advice.lead}.")


def _there(command: Command, ways: Ways) -> list[Command]:
    """As it is typed here; none where the way is unknown."""
    tool = command.words[0]
    if tool in _SLURM:
        return slurm_commands(ways, [command])
    if tool in _ON_NODE:
        return [command._replace(words=ways.node.typed(*command.words))] if ways.node else []
    return [command]
