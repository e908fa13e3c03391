"""What went wrong with one of Slurm's commands, and the way out, in words for people."""

from __future__ import annotations

import re
from typing import Final

from gpumon.base.errors import UnavailableError
from gpumon.model.fault import SourceError
from gpumon.model.text import plain

NO_CONFIGURATION: Final = "finds no Slurm configuration"
"""The error where Slurm's commands are installed but belong to no cluster."""

UNREACHED: Final = "cannot reach Slurm's controller"

UNREACHED_ACCOUNTING: Final = "cannot reach Slurm's accounting (slurmdbd)"

WITHOUT_ACCOUNTING: Final = re.compile(
    r"accounting storage is disabled|accounting_storage/none", re.IGNORECASE
)
"""Slurm's words on a cluster without accounting, which is no trouble: it was set up so."""

_UNFOUND: Final = " is not found"

_UNLISTED: Final = "something that is not a list of"

_SILENT: Final = ("gave no answer within", "gave no complete answer within")

_ENDED: Final = "ended with status"

_PING: Final = (
    "`scontrol ping` says whether it is up; gpumon asks again by itself, less and less often"
)

_KNOWN: Final = (
    (
        re.compile(
            r"configuration source|fetch_config|SLURM_CONF|"
            r"Unable to process configuration file|Unable to determine this slurmd",
            re.IGNORECASE,
        ),
        NO_CONFIGURATION,
        "run it on a login node of the cluster, or point SLURM_CONF to its slurm.conf",
    ),
    (
        re.compile(
            r"permission denied|invalid user id|not authori[sz]ed|authentication|munge|"
            r"invalid credential|expired token|jwt",
            re.IGNORECASE,
        ),
        "is refused by Slurm",
        "check with your Slurm administrators that this user may ask, and that munge runs here",
    ),
    # What a login shell says beside it may speak of a database, too.
    (re.compile(r"unable to contact slurm controller", re.IGNORECASE), UNREACHED, _PING),
    (
        re.compile(
            r"talking to the database|slurmdb|persist_conn|persistinit|persistent connection|"
            r"from slurm accounting storage",
            re.IGNORECASE,
        ),
        UNREACHED_ACCOUNTING,
        "jobs and nodes need no slurmdbd and stay live; gpumon asks again, less and less often",
    ),
    (
        re.compile(
            r"connection refused|connection timed out|"
            r"socket timed out|zero bytes|no route to host|network is unreachable|"
            r"unable to connect|communications connection failure",
            re.IGNORECASE,
        ),
        UNREACHED,
        _PING,
    ),
)
"""Words of Slurm's messages (slurm_errno.c), what they mean, and the way out."""

_NO_TOPOLOGY: Final = re.compile(r"No topology information available|invalid entity: ?topology")
"""Words of libslurm's topology plugins and of scontrol, the same in 22.05 and 24.11."""

_UNLIKE_TOPOLOGY: Final = re.compile(
    r"topology_g_topology_unpack|slurm_load_topo error: Header lengths are longer"
)

_TAG: Final = re.compile(r"^[a-z_]+: (?:error|fatal): ")


class CommandFailedError(UnavailableError):
    """A command brought no records."""

    def __init__(self, error: SourceError) -> None:
        super().__init__(error.message)
        self.error = error


def not_found(command: str, program: str) -> SourceError:
    """The program is not installed here, or not on the path."""
    return SourceError(
        command,
        f"{program}{_UNFOUND}",
        "run gpumon where Slurm's commands are on the PATH, or watch a login node",
    )


def not_started(command: str, error: OSError) -> SourceError:
    """The program is there but the system does not run it."""
    return SourceError(
        command, f"cannot be run: {error.strerror or error}", "check the file's permissions"
    )


def timed_out(command: str, timeout_s: float) -> SourceError:
    """No answer within the deadline; the command was killed."""
    return SourceError(
        command,
        f"{_SILENT[0]} {timeout_s:.0f} s and was stopped",
        "`scontrol ping` and `sdiag` say whether the controller is overloaded",
    )


def too_long(command: str, max_bytes: int) -> SourceError:
    """More output than any cluster can mean; the command was killed."""
    return SourceError(
        command,
        f"printed more than {max_bytes // 2**20} MiB and was stopped",
        "check what runs under this name: `type -a scontrol`",
    )


def stopped(command: str) -> SourceError:
    """The command was ended because gpumon itself ends."""
    return SourceError(command, "was stopped because gpumon ends")


def hop_failed(command: str, stderr: str) -> SourceError:
    """The login node in front of the command could not be reached."""
    reason = _last_line(stderr) or "ssh ended without a message"
    return SourceError(
        command, f"the login node cannot be reached: {reason}", "try the same ssh by hand"
    )


def unread(command: str, what: str, unreadable: int, total: int) -> SourceError:
    """Some records of a good answer could not be read and are missing."""
    return SourceError(
        command,
        f"{unreadable} of {total} {what} could not be read and are left out",
        "please report it with the Slurm version (`scontrol --version`)",
    )


def unplaced(command: str, jobs: int, total: int) -> tuple[SourceError, ...]:
    """Of some jobs of a good answer, or none, it could not be read what they hold on which node."""
    if not jobs:
        return ()
    error = SourceError(
        command,
        f"which GPUs {jobs} of {total} jobs hold could not be read; their number may be known",
        "please report it with the Slurm version (`scontrol --version`)",
    )
    return (error,)


def miscounted(command: str, what: str, announced: int, total: int) -> SourceError:
    """More or fewer records than announced: some are cut off, or forged."""
    return SourceError(
        command,
        f"announced {announced} {what} but printed {total}",
        "a name or comment with line breaks can forge records: `squeue -o '%i %j'` shows whose",
    )


def garbage(command: str, what: str, text: str) -> SourceError:
    """An answer without a single record that can be read."""
    start = plain(" ".join(text[:400].split()), 80)
    return SourceError(
        command,
        f"answered with {_UNLISTED} {what}: {start!r}",
        "check that it runs well by hand; a wrapper of this name may print something else",
    )


def refused(command: str, status: int, stderr: str) -> SourceError:
    """The command ended with an error of its own."""
    reason = _last_line(stderr) or "without a message"
    return recognised(command, stderr) or SourceError(
        command, f"{_ENDED} {status}: {reason}", "run it by hand to see more"
    )


def complained(command: str, text: str) -> SourceError:
    """The command ended well, and printed nothing but a complaint."""
    return recognised(command, text) or SourceError(
        command, f"printed nothing but: {_last_line(text)}", "run it by hand to see more"
    )


def is_silence(error: SourceError) -> bool:
    """Whether the controller gives no answer, to whomever: not what is wrong with one caller."""
    return error.message.startswith((UNREACHED, *_SILENT))


def is_about_accounting(error: SourceError) -> bool:
    """Whether it is slurmdbd that gives no answer; the controller may be well."""
    return error.message.startswith(UNREACHED_ACCOUNTING)


def accounting_words(error: SourceError) -> str:
    """Slurm's own words in an error that is about slurmdbd, from the colon on."""
    return error.message.removeprefix(UNREACHED_ACCOUNTING)


def is_unreadable(error: SourceError) -> bool:
    """Whether it is the answer's form, or the program, that serves us not; Slurm may be well."""
    return _UNLISTED in error.message or error.message.endswith(_UNFOUND)


def means_no_topology(text: str) -> bool:
    """Whether scontrol says that this cluster has no topology, or does not know the word."""
    return _NO_TOPOLOGY.search(text) is not None


def is_of_another_kind(text: str) -> bool:
    """Whether scontrol cannot read the topology of another cluster, as its plugin isn't ours.

    Seen from a cluster of topology/tree on one without: 24.11 crashes after these words, 26.05
    prints nothing but them.
    """
    return _UNLIKE_TOPOLOGY.search(text) is not None


def read_otherwise(error: SourceError, command: str) -> SourceError:
    """The same trouble, where another command's records are used."""
    return error._replace(message=f"{error.message}; {command} is read instead")


def recognised(command: str, text: str) -> SourceError | None:
    """What well-known words of Slurm's mean; None where they are others."""
    for pattern, meaning, hint in _KNOWN:
        if pattern.search(text):
            return SourceError(command, f"{meaning}: {_last_line(text)}", hint)
    return None


def _last_line(text: str) -> str:
    """The last line that is not blank, without the program's own tag, harmless."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return plain(_TAG.sub("", lines[-1]), 200) if lines else ""
