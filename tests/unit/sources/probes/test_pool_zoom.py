"""Zoom on its way from a wish to the probes, over real pipes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpumon.sources.source import Wish
from tests.worlds.probe import HELLO, eventually, talker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.sources.probes.stream import Endpoint
    from tests.unit.sources.pools import Run

    Open = Callable[..., Run]


def listener(node: str, heard: Path, *uuids: str) -> Endpoint:
    """A node with these GPUs that writes down what it is told."""
    block = {"keys": uuids, "at": [1] * len(uuids), "columns": {}, "labels": {}, "missing": {}}
    report = json.dumps({"at": 1, "late_s": 1, "errors": [], "blocks": {"gpu": block}})
    script = f"{HELLO} echo '{report}'; while read line; do echo \"$line\" >> {heard}; done"
    return talker(script, node)


def test_zoom_reaches_only_the_nodes_of_the_job_with_their_own_gpus(
    run: Open, tmp_path: Path
) -> None:
    files = {name: tmp_path / name for name in ("n1", "n2", "n3")}
    one = run(*(listener(n, file, f"GPU-{n}a", f"GPU-{n}b") for n, file in files.items()))

    def lines_of(name: str) -> list[str]:
        return files[name].read_text().splitlines() if files[name].exists() else []

    eventually(lambda: lines_of("n1") and lines_of("n2") and lines_of("n3"), "the first period")
    one.settle()
    one.turn()
    one.pool.wish(Wish(zoom_nodes=("n1", "n2"), zoom_gpus=("GPU-n1b", "GPU-n2a", "GPU-n2b")))
    eventually(lambda: lines_of("n2")[-1] == "period 0.5", "the wish arrives")
    eventually(lambda: lines_of("n1")[-1] == "period 0.5", "the wish arrives")
    eventually(lambda: len(lines_of("n3")) == 2, "the lease arrives")
    assert lines_of("n1")[-2] == "zoom GPU-n1b"
    assert lines_of("n2")[-2] == "zoom GPU-n2a,GPU-n2b"
    assert set(lines_of("n3")) == {"period 1.0"}
    one.pool.wish(Wish(period_s=4.0))
    eventually(lambda: lines_of("n1")[-1] == "period 1.0", "zoom outlives a new period")
    eventually(lambda: lines_of("n3")[-1] == "period 4.0", "the others keep to the period")
    one.pool.wish(Wish())
    eventually(lambda: lines_of("n1")[-2:] == ["zoom off", "period 4.0"], "nobody looks any more")
    one.turn()
    assert sum(line.startswith("zoom") for line in lines_of("n1")) == 2


def test_a_node_that_comes_up_while_it_is_looked_at_is_told_so(run: Open, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    one = run()
    one.pool.wish(Wish(zoom_nodes=("n1",)))
    one.pool.replace([listener("n1", heard, "GPU-a", "GPU-b; reboot", "GPU-c")])
    eventually(lambda: heard.exists() and "zoom" in heard.read_text(), "it is told")
    eventually(lambda: heard.read_text().endswith("period 0.5\n"), "it is told")
    assert "zoom GPU-a,GPU-c\n" in heard.read_text()
    assert "reboot" not in heard.read_text()


def test_whether_processes_are_on_screen_is_told_once_and_to_whoever_comes_up_later(
    run: Open, tmp_path: Path
) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    one = run(listener("n1", early, "GPU-a"))
    eventually(lambda: early.exists() and "period" in early.read_text(), "the first period")
    one.settle()
    one.turn()
    one.pool.wish(Wish(shows_processes=False))
    one.pool.wish(Wish(period_s=4.0))
    eventually(lambda: early.read_text().endswith("period 4.0\n"), "both wishes arrive")
    assert early.read_text().count("processes unseen\n") == 1
    one.pool.replace([listener("n2", late, "GPU-b")])
    eventually(lambda: late.exists() and "processes unseen\n" in late.read_text(), "it is told")
    one.pool.wish(Wish(shows_processes=True))
    eventually(lambda: "processes seen\n" in late.read_text(), "somebody looks")
