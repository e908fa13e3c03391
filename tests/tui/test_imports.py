"""What the terminal imports before its first screen: no screen that it does not show."""

from __future__ import annotations

import subprocess
import sys

import pytest

PAINT = """
import asyncio, sys
from gpumon.tui.terminal import GpumonApp

class Feed:
    failure = None
    def start(self, on_tick):
        print(*sorted(name for name in sys.modules if name.startswith("gpumon.")))
    def wish(self, wish): ...
    def close(self): ...

async def paint():
    async with GpumonApp(Feed()).run_test(size=(80, 24)) as pilot:
        await pilot.pause()

asyncio.run(paint())
"""
FIRST = {
    "base", "base.column_filter", "base.files", "base.fleet_view", "base.pane_view",
    "base.root_view",
    "base.table_view", "base.take_along", "base.time_screen", "base.view", "lists",
    "lists.jobs", "open",
}  # fmt: skip
"""Modules of screens without which the list of jobs cannot be painted."""

LATER = {
    *("gpumon.report.lists.own_rows", "gpumon.report.tables.process"),
    *("gpumon.tui.widgets.text.prompt", "gpumon.report.next_steps.roads"),
}
"""What the list of jobs needs only after a key."""

WITH_ROWS = {
    *("gpumon.report.tables.job", "gpumon.report.facts.tick_index", "gpumon.report.facts.groups"),
    *("gpumon.report.wording.paragraphs", "gpumon.report.wording.empty_states"),
    *("gpumon.report.headline.lines", "gpumon.report.pages.job_glance", "gpumon.model.finding"),
    *("gpumon.model.records.ledger", "gpumon.model.gpu.hardware", "gpumon.report.fleet_map.marks"),
    "gpumon.tui.look.map_look",
}
"""What words and columns of rows are made of: it comes with the first of them."""


def test_the_first_screen_waits_for_no_screen_that_it_does_not_show() -> None:
    command = [sys.executable, "-c", PAINT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    names = set(done.stdout.split())
    screens = "gpumon.tui.screens."
    assert {name.removeprefix(screens) for name in names if name.startswith(screens)} == FIRST
    assert not names & LATER
    assert not names & WITH_ROWS


WATCH = """
import sys
from gpumon.cli import main, output, show

def shown(feed, *_given, beside, **_named):
    print(*sorted(name for name in sys.modules if name.startswith("gpumon.")))
    feed.close()
    return 0

show.show = shown
output.is_tty = lambda: True
main(sys.argv[1:])
"""
AFTER_IT = {
    *("gpumon.fleet.sampler.sampler", "gpumon.fleet.join.join", "gpumon.cli.recorded_past"),
    *("gpumon.sources.probes.pool", "gpumon.sources.demo", "gpumon.cli.configured_ledger"),
    *("gpumon.detect.learning.discovery", "gpumon.detect.learning.case_store"),
    *("gpumon.sources.job_output", "gpumon.detect.engine.engine"),
}
"""What samples, and what is read beside the ticks."""


def test_the_terminal_is_opened_before_what_samples_is_imported() -> None:
    command = [sys.executable, "-c", WATCH, "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    names = set(done.stdout.split())
    assert "gpumon.cli.show" in names
    assert not names & AFTER_IT


def test_who_answers_from_afar_is_asked_before_the_terminal_is_imported() -> None:
    command = [sys.executable, "-c", WATCH, "slurm"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    names = set(done.stdout.split())
    assert "gpumon.sources.slurm.poll.target" in names
    assert "gpumon.fleet.sampler.sampler" not in names


LOOP = """
import sys
from gpumon.cli import main, output, show

def shown(feed, *_given, beside, **_named):
    import gpumon.tui.terminal
    import asyncio
    import asyncio.base_events as events, asyncio.selector_events as selector
    from asyncio.sslproto import SSLProtocol

    async def speaks():
        try:
            SSLProtocol(asyncio.get_running_loop(), asyncio.Protocol(), ssl_context(), None)
        except RuntimeError:
            return False
        return None not in (events.ssl, selector.ssl)

    def ssl_context():
        import ssl
        return ssl.create_default_context()

    print(*sorted({"ssl", "_ssl"} & set(sys.modules)), "/", asyncio.run(speaks()))
    feed.close()
    return 0

show.show = shown
output.is_tty = lambda: True
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("targets", "printed"),
    [
        (["local"], "/ False"),
        (["dcgm+http://127.0.0.1:9"], "_ssl ssl / True"),
        (["local", "dcgm+http://127.0.0.1:9"], "_ssl ssl / True"),
    ],
)
def test_only_a_terminal_of_its_own_machine_leaves_tls_out(
    targets: list[str], printed: str
) -> None:
    command = [sys.executable, "-c", LOOP, *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.strip() == printed


ONE = """
import sys
from gpumon.tui.screens.open import AllViews

print(AllViews().root(sys.argv[1]).view)
print(*(name for name in sys.modules if name.startswith("gpumon.tui.screens.lists.")))
"""


@pytest.mark.parametrize("view", ["gpus", "accounts", "fleet"])
def test_a_view_of_the_fleet_waits_for_no_other(view: str) -> None:
    command = [sys.executable, "-c", ONE, view]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    made, modules = done.stdout.splitlines()
    home = {"accounts": "users_accounts"}.get(view, view)
    lists = "gpumon.tui.screens.lists."
    assert made == view
    assert {name.removeprefix(lists) for name in modules.split()} == {"jobs", home}
