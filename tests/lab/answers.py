"""One answer of gpumon, asked for again where a busy machine kept it waiting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.lab.cluster import COMMAND_TIMEOUT_S
from tests.lab.layout import HEAD

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from tests.lab.cluster import Cluster

TRIES = 3
"""A cluster that answers none of them has a fault of its own."""

_OUT_OF_TIME = re.compile(r"(no answer|not every node has answered) in \d+ s")


def answered(
    cluster: Cluster,
    words: Sequence[str],
    user: str = "alice",
    node: str = HEAD,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = COMMAND_TIMEOUT_S,
    code: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """A run of gpumon in which no target ran out of time, or the last of `TRIES`.

    It must end with `code`; None: with any.

    `--for 0` gives a target ten seconds. With every lane of the lab at work, a login by ssh or a
    command of Slurm alone may take longer. Tests that are about that limit ask for themselves.
    """
    for _ in range(TRIES):
        done = cluster.run_as(user, words, node, env=env, timeout=timeout, check=False)
        if not _OUT_OF_TIME.search(done.stdout + done.stderr):
            break
    assert code is None or done.returncode == code, done.stderr
    return done
