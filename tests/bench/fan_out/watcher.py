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

from gpumon.cli.commands import watch
from gpumon.cli.options import parser, request_of
from gpumon.cli.request import chosen_targets, settings_with

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick


def main() -> int:
    """Watch until told to end."""
    _, period, target = sys.argv
    options = parser().parse_args(["--json", "--watch", period, target])
    settings = settings_with(period_s=options.period, is_all=options.all, is_check=False)
    request = request_of(options, settings, chosen_targets([target], settings), is_to_tty=False)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    gc.set_threshold(50_000, 20, 50)
    sampler = watch._sampler(request, float(period))
    sampler.start(_tell)
    over.wait()
    sampler.close()
    return 0


def _tell(tick: Tick) -> None:
    nodes = {name: view.taken_at for name, view in tick.nodes.items() if view.taken_at}
    errors = [error.message for error in tick.errors]
    line = {"at": tick.at, "lateness_s": tick.lateness_s, "nodes": nodes, "errors": errors}
    os.write(1, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
