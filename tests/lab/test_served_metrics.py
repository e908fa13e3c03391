"""Debian's Prometheus and VictoriaMetrics scrape `gpumon serve`; promtool judges its alerts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.cli import main
from gpumon.cli.commands.serve import SHIPPED
from tests.lab.test_prometheus import PROGRAMS, Engine, Judge
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = """
global: {scrape_interval: 1s%s}
scrape_configs:
  - job_name: gpumon
    static_configs: [{targets: ["127.0.0.1:%s"]}]
"""
DEAD = "dcgm+http://127.0.0.1:1/metrics"
"""A target that nobody answers for."""

PATIENCE_S = 30.0
RARE = (
    *("gpumon_losing_cost_per_hour", "gpumon_left_out"),
    *("gpumon_ledger_wasted_gpu_seconds", "gpumon_finding_losing_gpus"),
)
"""Told only where prices are set, of a page that is full, and of waste that minutes have shown."""

SURE = 'severity="critical", confidence="established"'
GUESS = 'severity="critical", confidence="hypothesis"'
MINUTES = """
rule_files: [%s]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'gpumon_picture_time_seconds{instance="ends"}'
        values: '0+60x10 _x60'
      - series: 'gpumon_picture_time_seconds{instance="hangs"}'
        values: '0+60x10 600x60'
      - series: 'gpumon_picture_time_seconds{instance="well"}'
        values: '0+60x120'
      - series: 'gpumon_target_up{instance="well", target="slurm"}'
        values: '1x10 0x4 1x5 0x60'
      - series: 'gpumon_node_up{instance="well", node="n1"}'
        values: '1x20 0x60'
      - series: 'gpumon_node_up{instance="well", node="n2"}'
        values: '1x80'
      - series: 'gpumon_node_up{instance="hangs", node="n3"}'
        values: '1x80'
      - series: 'gpumon_findings{instance="well", class="gpu_fault", %s}'
        values: '_x20 2x60'
      - series: 'gpumon_findings{instance="well", class="gpu_fault", %s}'
        values: '5x80'
      - series: 'gpumon_findings{instance="well", class="hang", %s}'
        values: '5x80'
      - series: 'gpumon_losing_gpus{instance="well", state="wasted"}'
        values: '16x100'
      - series: 'gpumon_losing_gpus{instance="hangs", state="wasted"}'
        values: '15x100'
      - series: 'gpumon_gpus{instance="well", state="held"}'
        values: '63x100'
      - series: 'gpumon_gpus{instance="hangs", state="held"}'
        values: '63x100'
    promql_expr_test:
      - expr: ALERTS{alertstate="firing"}
        eval_time: 14m
        exp_samples: []
      - expr: count by (alertname, instance) (ALERTS{alertstate="firing"})
        eval_time: 61m
        exp_samples:
          - {labels: '{alertname="GpumonSilent", instance="ends"}', value: 1}
          - {labels: '{alertname="GpumonSilent", instance="hangs"}', value: 1}
          - {labels: '{alertname="GpumonTargetDown", instance="well"}', value: 1}
          - {labels: '{alertname="GpumonNodesSilent", instance="well"}', value: 1}
          - {labels: '{alertname="GpumonHardwareFault", instance="well"}', value: 1}
          - {labels: '{alertname="GpumonWasting", instance="well"}', value: 1}
"""
"""What happens minute by minute, and which alerts that is: the others would wake somebody for
nothing."""


@pytest.fixture
def rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The alert rules, as they are printed."""
    missing = [
        program for program in (*PROGRAMS, "promtool", "vmalert") if shutil.which(program) is None
    ]
    if missing:
        reason = f"needs {', '.join(missing)}: tests/lab/install-packages installs what is missing"
        (pytest.fail if os.environ.get("GPUMON_LAB") == "require" else pytest.skip)(reason)
    assert main(["serve", "--print", "alerts"]) == 0
    file = tmp_path / "alerts.yml"
    file.write_text(capsys.readouterr().out)
    return file


def runs(*words: str) -> None:
    ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_alerts_wake_somebody_for_what_lasts_and_for_nothing_else(rules: Path) -> None:
    runs("promtool", "check", "rules", str(rules))
    runs("vmalert", "-dryRun", f"-rule={rules}")
    minutes = rules.parent / "minutes.yml"
    minutes.write_text(MINUTES % (rules, SURE, GUESS, SURE))
    runs("promtool", "test", "rules", str(minutes))


@contextmanager
def served() -> Iterator[str]:
    """Address of a server whose picture stands for some scrapes."""
    words = ["serve", "demo:2x8", DEAD, "--period", "3", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "gpumon", *words], stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stderr
            line = program.stderr.readline()
            yield line.rpartition(" on ")[2].strip()
        finally:
            program.kill()


def got(url: str, **query: str) -> Any:
    asked = f"{url}?{urllib.parse.urlencode(query)}" if query else url
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def series(engine: Engine, question: str, label: str = "") -> dict[str, float]:
    url = f"http://127.0.0.1:{engine.port}/api/v1/query"
    found = got(url, query=question, nocache="1")["data"]["result"]
    return {one["metric"].get(label, ""): float(one["value"][1]) for one in found}


def differences(engine: Engine, server: str) -> list[str] | None:
    """What an engine has otherwise than the document; None: it has another picture."""
    document = got(f"{server}v1/snapshot")
    total = document["ledger"]["total"]
    held = sum(len(job["gpus"]) for job in document["jobs"])
    gpus = [gpu for node in document["nodes"] for gpu in node["gpus"]]
    expected = {
        ("gpumon_power_watts", "uuid"): {one["uuid"]: one["power_w"] for one in gpus},
        ("gpumon_gpu_util_ratio", "uuid"): {one["uuid"]: one["gpu_util_ratio"] for one in gpus},
        ("gpumon_ledger_gpu_seconds", "state"): {
            state: total[f"{state}_gpu_seconds"]
            for state in ("useful", "wasted", "suspected", "unexplained", "unobserved")
        },
        ("sum(gpumon_findings)", ""): {"": len(document["findings"])},
        ("sum(gpumon_jobs)", ""): {"": len(document["jobs"])},
        ('sum(gpumon_gpus{state="held"})', ""): {"": held},
    }
    before = series(engine, "gpumon_picture_time_seconds")
    found = {asked: series(engine, *asked) for asked in expected}
    after = series(engine, "gpumon_picture_time_seconds")
    if not before or before != after or got(f"{server}v1/snapshot") != document:
        return None
    return [asked[0] for asked in expected if found[asked] != expected[asked]]


def test_what_is_scraped_is_the_document_and_an_alert_fires(rules: Path) -> None:
    at_once = re.sub(r"for: \d+[mh]", "for: 0s", rules.read_text())
    rules.write_text(at_once)
    engines: list[Engine] = []
    judges: list[Judge] = []
    with served() as server:
        # VictoriaMetrics looks for series that it did not have only every some seconds.
        eventually(lambda: found_something(server), "findings")
        for program in PROGRAMS:
            folder = rules.parent / program
            folder.mkdir()
            port = server.rstrip("/").rpartition(":")[2]
            is_own = program == "prometheus"
            interval = ", evaluation_interval: 1s" if is_own else ""
            own = f"rule_files: [{rules}]" if is_own else ""
            (folder / "gather.yml").write_text(CONFIG % (interval, port) + own)
            engines.append(Engine(program, folder))
        try:
            for engine in engines:
                engine.start()
            judges += [Judge(engine, rules) for engine in engines]
            for engine in engines:
                eventually(lambda one=engine: same(one, server), f"{engine.program} is the same")
            firing = 'ALERTS{alertname="GpumonTargetDown", alertstate="firing"}'
            for engine, judge in zip(engines, judges, strict=True):
                eventually(lambda one=engine: empty(one) == [], "the dashboard has data")
                eventually(
                    lambda one=engine: DEAD in series(one, firing, "target"),
                    f"the alert of {engine.program} fires",
                )
                assert judge.failures() == {}
        finally:
            for judge in judges:
                judge.stop()
            for engine in engines:
                engine.stop()


def empty(engine: Engine) -> list[str]:
    """What the dashboard asks and the engine has no data for."""
    text = files("gpumon.serve").joinpath(SHIPPED["dashboard"]).read_text("utf-8")
    asked = [
        target["expr"].replace("$cluster", ".*").replace("$node", ".*")
        for panel in json.loads(text)["panels"]
        for target in panel.get("targets", ())
    ]
    assert len(asked) > 15
    return [
        question
        for question in asked
        if not any(name in question for name in RARE) and not series(engine, question)
    ]


def found_something(server: str) -> bool:
    """Whether there is a picture with findings."""
    try:
        return bool(got(f"{server}v1/snapshot")["findings"])
    except urllib.error.HTTPError:
        return False


def same(engine: Engine, server: str) -> bool:
    """Whether an engine has the document's numbers, of the same picture."""
    try:
        return differences(engine, server) == []
    except OSError:
        return False
