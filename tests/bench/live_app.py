"""`python -m tests.bench.live_app JOBS GPUS_PER_JOB`: the real terminal over a fleet made before.

What it writes first says that the fleet is made and that the terminal begins now.
"""

from __future__ import annotations

import os
import sys

from tests.bench.live_fleet import LiveFeed, LiveFleet
from tests.bench.session import READY


def main() -> int:
    """Watch until the user quits."""
    fleet = LiveFleet(int(sys.argv[1]), int(sys.argv[2]))
    os.write(1, READY)
    from gpumon.tui.terminal import run_terminal

    return run_terminal(LiveFeed(fleet), "bench")


if __name__ == "__main__":
    sys.exit(main())
