"""Exit codes, and the one way to speak on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.base.errors import GpumonError, InputError
from gpumon.cli.output import ReaderGoneError, write_stderr
from gpumon.model.fault import DETECTION, OWN

if TYPE_CHECKING:
    from gpumon.model.fault import SourceError
    from gpumon.model.records.tick import Tick

DONE: Final = 0
"""Exit code: all that was asked for is done; partial failures are listed in `errors`."""
NOTHING_READ: Final = 1
"""Exit code: nothing could be read, or there is no such job."""
USAGE: Final = 2
"""Exit code: the command line or the configuration is wrong; 2 as argparse has it."""
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""

UNKNOWN_STATUS: Final = 3
"""With `--exit-status`: nothing could be read or judged, or the command line was wrong."""

ENDINGS: Final[tuple[tuple[type[GpumonError], int], ...]] = (
    (ReaderGoneError, DONE),
    (InputError, USAGE),
    (GpumonError, NOTHING_READ),
)
"""The exit code of each branch of `gpumon.base.errors`; the first that fits counts."""


def narrate(message: str) -> None:
    """Say one line to the person; data goes to standard output."""
    write_stderr(f"gpumon: {message}\n")


def narrate_error(error: SourceError) -> None:
    """Say what failed and the way out in one line."""
    hint = f" ({error.hint})" if error.hint else ""
    # Every line begins with gpumon's name already.
    where = "" if error.where == OWN else f"{error.where}: "
    narrate(f"{where}{error.message}{hint}")


def ended_by(error: GpumonError, *, is_check: bool) -> int:
    """Exit code of a command that nothing but this error ended; tells it.

    Args:
        error: What ended it.
        is_check: Whether the exit code answers a monitoring check: 1 and 2 are its alarms.
    """
    for line in error.lines:
        narrate(line)
    code = next(code for kind, code in ENDINGS if isinstance(error, kind))
    return UNKNOWN_STATUS if is_check and code != DONE else code


def is_anything_read(tick: Tick) -> bool:
    """Whether at least one target answered with a GPU or a queue."""
    is_answered = any(target.is_ok for target in tick.targets)
    return is_answered and (bool(tick.gpus) or tick.queue_at is not None)


def plain_status(tick: Tick) -> int:
    """0 where anything was read, else 1; partial failures are in the document's errors."""
    return DONE if is_anything_read(tick) else NOTHING_READ


def check_status(tick: Tick) -> int:
    """0, 1, 2 or 3 as monitoring checks expect: ok, warning, critical, unknown.

    What the column HEALTH says of GPUs counts as findings do. A hypothesis never raises an alarm,
    a detector that waits and a field that a board lacks change nothing. Critical goes before
    unknown, for it is known, and unknown before a warning.
    """
    from gpumon.model.finding import Confidence, Severity
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.wording.health import has_unread, worst_of

    if not is_anything_read(tick):
        return UNKNOWN_STATUS
    digest = Digest(tick)
    grave = {f.severity for f in tick.findings if f.confidence is not Confidence.HYPOTHESIS}
    worst = worst_of(digest)
    if Severity.CRITICAL in (*grave, worst):
        return 2
    if any(error.where == DETECTION for error in tick.errors) or has_unread(digest):
        return UNKNOWN_STATUS
    return 1 if Severity.WARNING in (*grave, worst) else 0
