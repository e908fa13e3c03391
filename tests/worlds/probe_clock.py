"""The probe on the stand-in driver, one pass at a time by a clock that the test sets."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumon.sources.probes.decode import Decoder
from tests.worlds.probe import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.frame import Frame

CHILD = """
import json, sys
from gpumon.probe import main
from gpumon.probe import surroundings
from gpumon.probe.kernel import local_filesystems, outputs
from gpumon.probe.driver.driver import Driver
from gpumon.probe.surroundings import Surroundings
from gpumon.probe.driver.sweep import Sweeper
# No machine is so busy that a report goes without what the node reports.
outputs.PATIENCE_S = local_filesystems.PATIENCE_S = surroundings.PATIENCE_S = 600.0
now = [0.0]
sweeper = Sweeper(None, Driver(lambda: now[0]))
surroundings = Surroundings(sys.argv[1], lambda: now[0])
surroundings.start()
for line in sys.stdin:
    now[0], zoom = json.loads(line)
    sweeper.zoom = frozenset(zoom)
    sweeper.sweep()
    main.send(main.report(sweeper, surroundings, 0.0))
"""


class Stepped:
    """A child that makes one pass when it gets the time; reads /proc and /sys below `root`."""

    def __init__(self, root: Path) -> None:
        self._decoder = Decoder("local")
        self.raw: dict[str, Any] = {}
        """The last report as it was on the wire."""
        self._child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> Stepped:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()

    def frame(self, at: float, zoom: Sequence[str] = ()) -> Frame:
        """What the probe reports when its clock shows `at`, decoded as every report is."""
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.write(json.dumps([at, list(zoom)]) + "\n")
        self._child.stdin.flush()
        ready, _, _ = select.select([self._child.stdout], [], [], PATIENCE_S)
        line = self._child.stdout.readline() if ready else ""
        assert line, f"no report at {at}: {self._child.poll()}"
        self.raw = json.loads(line)
        # Its own clock goes on as ever: the report is as new as it is.
        heard_s = self.raw["at"]
        return self._decoder.frame(line.encode(), "", 1_760_000_000.0 + at, heard_s)
