"""Which cluster the Slurm files of this machine are about, and which one an answer is about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpumon.sources.slurm.json.values import records, text
from gpumon.sources.slurm.text.gres_conf import DIRECTORIES, MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(
    r"^[ \t]*ClusterName[ \t]*=[ \t]*\"?([\w.-]+)", re.IGNORECASE | re.MULTILINE
)


def of_this_machine(environ: Mapping[str, str]) -> str:
    """`ClusterName` of the slurm.conf beside the gres.conf that is read, lower case.

    Empty where there is none to read.
    """
    conf = environ.get("SLURM_CONF", "")
    for path in (conf, *(f"{place}/slurm.conf" for place in DIRECTORIES)):
        try:
            with Path(path).open("rb") as file:
                found = _NAME.search(file.read(MAX_BYTES).decode("utf-8", "replace"))
        except OSError:
            # Absent or closed to this user: the next place may have it.
            continue
        return found[1].lower() if found else ""
    return ""


def ahead_of(conf: str) -> str:
    """The cluster that SlurmCommands.far_gres_conf names in a comment on the first line."""
    found = _NAME.match(conf.removeprefix("#"))
    return found[1].lower() if found else ""


def of_answer(answer: Mapping[str, Any]) -> str:
    """The cluster that an answer of slurmrestd is about, lower case; empty where it doesn't say.

    Its `meta` has it since 23.11, each job does so in every version.
    """
    meta = answer.get("meta")
    slurm = meta.get("slurm") if isinstance(meta, dict) else None
    named = text(slurm.get("cluster")) if isinstance(slurm, dict) else ""
    first = next((job for job in records(answer, "jobs") or [] if isinstance(job, dict)), {})
    return (named or text(first.get("cluster"))).lower()
