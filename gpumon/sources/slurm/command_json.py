"""The `--json` of Slurm's commands, for where their text can't be read.

Text is what we ask for: every version prints it, and the JSON of the same jobs is three to twelve
times as long (22.05 and 24.11). `scontrol show --json` is there since 23.02. Older ones have
`squeue --json`, and `sinfo --json`, which lists nodes as slurmrestd does, later in groups.
"""

from __future__ import annotations

from typing import Any, Final

from gpumon.model.fault import SourceError
from gpumon.sources.slurm import failures, rest_failures
from gpumon.sources.slurm.failures import CommandFailedError
from gpumon.sources.slurm.json_values import NotAnObjectError, parse_object, records

COMMANDS: Final = {
    "job": (
        ("scontrol", "--all", "--details", "show", "job", "--json"),
        ("squeue", "--all", "--json"),
    ),
    "node": (("scontrol", "--all", "show", "node", "--json"), ("sinfo", "--all", "--json")),
}
"""What is asked for each kind, in order, until one answers."""


def records_of(text: str, kind: str, command: str) -> list[Any]:
    """Records of an answer, whatever a login shell printed ahead of it.

    Raises:
        CommandFailedError: it holds none, and is no empty list either: 22.05 ends with status 0 and
            an empty list where its controller is down, and says so in `errors`.
    """
    what = f"{kind}s"
    try:
        answer = parse_object(text[max(0, text.find("{")) :].encode("utf-8", "replace"))
    except NotAnObjectError:
        raise CommandFailedError(failures.garbage(command, what, text)) from None
    found, errors = records(answer, what), records(answer, "errors") or []
    if found or (found == [] and not errors):
        return found
    if not errors:
        raise CommandFailedError(failures.garbage(command, what, text))
    said = rest_failures.described([one for one in errors if isinstance(one, dict)])
    error = failures.recognised(command, said)
    raise CommandFailedError(
        error or SourceError(command, f"answered with an error: {said}", "`scontrol ping`")
    )
