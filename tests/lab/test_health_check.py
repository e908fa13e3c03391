"""The scripts of docs/cli.md where they are meant to run: a GPU breaks, and slurmd's own health
check drains its node; Nagios is told of it in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.every_slurm

BROKEN, WHOLE = "gpu02", "gpu01"
PAGE = Path(__file__).parents[2] / "docs/cli.md"
DRAINS, TELLS = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", PAGE.read_text(), re.DOTALL)
PLACE = "/etc/slurm/health-check"
"""Below a folder that all machines of the lab share."""

CHECKED_S = 60.0
"""Two intervals of the check, and what a busy machine takes for one."""


def of_the_page(cluster, script):
    """A script of the page, which finds the lab's gpumon."""
    path = f"PATH={cluster.layout.venv}/bin:/usr/bin:/bin"
    return re.sub(r"^PATH=.*$", path, script, flags=re.MULTILINE)


def node_value(cluster, node, name):
    """What Slurm says of a node."""
    line = cluster.run_on("head", ["scontrol", "show", "node", "-o", node]).stdout
    found = re.search(rf"\b{name}=(.*?)(?: \w+=|$)", line)
    return found[1] if found else ""


@pytest.fixture
def broken(cluster):
    """A node of which a GPU falls off the bus when it is asked for; whole again in the end."""

    def lose(gpu):
        driver = cluster.driver(BROKEN)
        driver.lose(gpu)
        driver.write()

    yield lose
    driver = cluster.driver(BROKEN)
    driver.heal()
    driver.write()
    words = ["scontrol", "update", f"NodeName={BROKEN}", "State=RESUME"]
    cluster.run_on("head", words, check=False)
    cluster.wait_idle([BROKEN])


def test_slurm_drains_the_node_of_a_lost_gpu_by_its_own_health_check(cluster, broken):
    install = f"cat >{PLACE}; chmod 755 {PLACE}"
    cluster.run_on("head", ["sh", "-c", install], input=of_the_page(cluster, DRAINS))
    settings = {"HealthCheckProgram": PLACE, "HealthCheckInterval": 10}
    with cluster.configured(**settings, HealthCheckNodeState="ANY,CYCLE"):
        broken(5)
        cluster.wait_until(
            lambda: "DRAIN" in node_value(cluster, BROKEN, "State"), f"{BROKEN} drained", CHECKED_S
        )
    assert "GPU 5: fell off the bus" in node_value(cluster, BROKEN, "Reason")
    assert node_value(cluster, BROKEN, "Reason").startswith("gpumon: ")
    assert "DRAIN" not in node_value(cluster, WHOLE, "State")


def test_nagios_is_told_in_one_line_by_the_code_that_it_knows(cluster, broken):
    def check(node):
        words = ["sh", "-c", of_the_page(cluster, TELLS)]
        done = cluster.run_on(node, words, check=False)
        return done.returncode, done.stdout

    assert check(BROKEN) == (0, "GPUS OK\n")
    broken(3)
    code, line = check(BROKEN)
    assert code == 2
    assert line.startswith("GPUS CRITICAL: ")
    assert "GPU 3: fell off the bus" in line
    assert line.count("\n") == 1
