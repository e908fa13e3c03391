"""Command line of the lab: `python -m tests.lab up|down|status|run NODE CMD...|as USER CMD...`."""

from __future__ import annotations

import argparse
import os
import time

from tests.lab.cluster import Cluster
from tests.lab.layout import HEAD, Layout
from tests.lab.machine import LabError
from tests.lab.release import RELEASES, chosen_version


def main() -> None:
    """Steers the lab of slot 0 (GPUMON_LAB_SLOT, GPUMON_LAB_STATE choose another) from a shell."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=main.__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    help_text = "of Slurm; GPUMON_LAB_VERSION is the default"
    common.add_argument("--version", choices=RELEASES, default=chosen_version(), help=help_text)
    up, down, _, _, run, as_user = (
        subparsers.add_parser(name, help=help_text, parents=[common])
        for name, help_text in (
            ("up", "make a new cluster"),
            ("down", "take everything away"),
            ("status", "which machines are on, what Slurm says"),
            ("install", "build gpumon anew and install it in the running lab"),
            ("run", "a command as root of a machine"),
            ("as", "a command as a user of the head"),
        )
    )
    up.add_argument("--no-gpumon", action="store_true", help="do not build and install gpumon")
    down.add_argument("--purge", action="store_true", help="also its files and cache")
    run.add_argument("node")
    as_user.add_argument("user")
    as_user.add_argument("--node", default=HEAD)
    for entering in (run, as_user):
        entering.add_argument("argv", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        _do(Cluster(Layout.chosen(version=options.version)), options)
    except LabError as error:
        raise SystemExit(f"lab: {error}") from error


def _do(cluster: Cluster, options: argparse.Namespace) -> None:
    if options.command == "run":
        _become(cluster, "root", options.argv, options.node)
    elif options.command == "as":
        _become(cluster, options.user, options.argv, options.node)
    elif options.command == "status":
        for name, machine in cluster.machines.items():
            print(
                f"{name}: {'on' if machine.init_pid() else 'off'}, {len(machine.pids())} processes"
            )
        if cluster.is_up():
            print(cluster.run_on(HEAD, ["sinfo"]).stdout, end="")
    else:
        began = time.monotonic()
        if options.command == "up":
            cluster.up()
        if options.command == "down":
            cluster.down(purge=options.purge)
        if options.command == "install" or (options.command == "up" and not options.no_gpumon):
            print(cluster.install_gpumon())
        print(f"{options.command}: {time.monotonic() - began:.1f} s")


def _become(cluster: Cluster, user: str, argv: list[str], node: str) -> None:
    command = cluster.argv_as(user, argv or ["bash", "-l"], node)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
