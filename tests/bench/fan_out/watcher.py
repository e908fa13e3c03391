"""`python -m tests.bench.fan_out.watcher PERIOD TARGET`: gpumon as its terminal runs, undrawn.

Sources, history, detection and books are those of `gpumon --watch`; instead of a document of many
megabytes, each picture is a short line of when each node was read. To be ended by a signal.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from gpumon.cli import GC_THRESHOLDS
from gpumon.cli.commands import watch
from gpumon.cli.options import parser, request_of
from gpumon.cli.request import chosen_targets, settings_with

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.records.frame import Frame
    from gpumon.model.records.tick import Tick


def main() -> int:
    """Watch until told to end."""
    _, period, target = sys.argv
    options = parser().parse_args(["--json", "--watch", period, target])
    settings = settings_with(period_s=options.period, is_all=options.all)
    request = request_of(options, settings, chosen_targets([target], settings), is_to_tty=False)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    gc.set_threshold(*GC_THRESHOLDS)
    sampler = watch._sampler(request, float(period))
    newest = sampler._newest
    take = newest.take
    reports: list[tuple[str, float]] = []

    def hear(frames: Iterable[Frame]) -> None:
        listed = list(frames)
        reports.extend((one.node, one.taken_at) for one in listed if one.blocks)
        take(listed)

    def tell(tick: Tick) -> None:
        errors = [error.message for error in tick.errors]
        line = {"lateness_s": tick.lateness_s, "reports": reports, "errors": errors}
        os.write(1, json.dumps(line).encode() + b"\n")
        reports.clear()

    # Each report counts, also where two of a node fall between two pictures.
    newest.take = hear  # type: ignore[method-assign]
    sampler.start(tell)
    over.wait()
    sampler.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
