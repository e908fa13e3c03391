"""`python -m tests.bench`: gpumon beside its peers on the stand-in driver, in one run.

It prints and asserts nothing: the machine, its load and its Python decide what the numbers are.
Where all of it is to run before others on one core, take `chrt -r`: with `-f` the end of a watched
child spun in the kernel for ever (Linux 6.18, `release_task`), for it waits for whoever reads its
folder in /proc, who gets no time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tests.bench import live, oneshot, peers, probe, tree
from tests.bench.node import GPU_NAME, GPUS, busy_node, gpu_memory
from tests.bench.shown import Rows, show
from tests.bench.terminal import Terminal
from tests.lab.standin.driver import CompilerMissingError

GPUMON = str(Path(sys.executable).parent / "gpumon")
SETTLE_S = 4.0
"""Start-up work, such as the detection worker's imports, is over by then."""
PATIENCE_S = 15.0


def marker_of(program: str, each: int = 1) -> str:
    """What a program on the pretend machine has drawn once it shows data."""
    first, *_ = program.split()
    return {"gpumon": gpu_memory(each), "empty": "Textual"}.get(first, GPU_NAME)


def once(env: dict[str, str], runs: int, has_peers: bool) -> Rows:
    """Cold one-shot commands."""
    commands = {
        "gpumon --json --for 0 local": [GPUMON, "--json", "--for", "0", "local"],
        "python -c pass": [sys.executable, "-c", "pass"],
    }
    if has_peers:
        commands["nvitop -1"] = [peers.program("nvitop"), "-1"]
        commands["gpustat --json"] = [peers.program("gpustat"), "--json"]
    costs = oneshot.measure(commands, runs, 2, env)
    own = costs["gpumon --json --for 0 local"]
    return [
        {
            "command": name,
            "wall ms": round(cost.wall_s * 1e3, 1),
            "min ms": round(cost.wall_min_s * 1e3, 1),
            "CPU ms": round(cost.cpu_s * 1e3, 1),
            "peak MiB": round(cost.peak_rss_mib, 1),
            "gpumon/it wall": own.wall_s / cost.wall_s,
            "gpumon/it CPU": own.cpu_s / cost.cpu_s,
        }
        for name, cost in costs.items()
    ]


def watching(
    env: dict[str, str],
    seconds: float,
    commands: dict[str, list[str]],
    size: tuple[int, int],
    each: int,
) -> Rows:
    """Programs in a terminal at one look a second."""
    rows: Rows = []
    for name, words in commands.items():
        with Terminal(words, env, marker_of(name, each), size) as terminal:
            terminal.wait_for_paint(SETTLE_S)
            tree.measure(terminal.pid, SETTLE_S)
            shares = tree.measure(terminal.pid, seconds)
            if terminal.has_ended:
                rows.append({"program": f"{name} (ended)", **dict.fromkeys(WATCH_COLUMNS)})
                continue
        parts = {name: _sum(shares)} | (
            {f"  {role}": cost for role, cost in shares.items()} if len(shares) > 1 else {}
        )
        rows += [
            {
                "program": part,
                "CPU %": 100 * share,
                "RSS MiB": round(rss, 1),
                "PSS MiB": round(pss, 1),
                "gpumon/it": None,
            }
            for part, (share, rss, pss) in parts.items()
        ]
    own = rows[0]["CPU %"]
    for row in rows:
        if own is not None and row["CPU %"]:
            row["gpumon/it"] = own / row["CPU %"]
    return rows


WATCH_COLUMNS = ("CPU %", "RSS MiB", "PSS MiB", "gpumon/it")


def _sum(shares: dict[str, tuple[float, float, float]]) -> tuple[float, float, float]:
    share, rss, pss = (sum(column) for column in zip(*shares.values(), strict=True))
    return share, rss, pss


def painting(env: dict[str, str], runs: int, commands: dict[str, list[str]], each: int) -> Rows:
    """From start to the first text, to the first GPU, and from `q` to the end."""
    taken: dict[str, list[tuple[float | None, float | None, float | None]]] = {
        name: [] for name in commands
    }
    for turn in range(runs + 1):
        for name, words in commands.items():
            with Terminal(words, env, marker_of(name, each)) as terminal:
                terminal.wait_for_paint(PATIENCE_S)
            if turn:
                taken[name].append((terminal.paint_s, terminal.marker_s, terminal.quit_s))
    rows: Rows = []
    for name, samples in taken.items():
        paint, data, end = (_median_ms(column) for column in zip(*samples, strict=True))
        rows.append({"program": name, "first text ms": paint, "first GPU ms": data, "quit ms": end})
    floor = next((row for row in rows if row["program"].startswith("empty")), None)
    for row in rows:
        row["it/empty app"] = (
            row["first text ms"] / floor["first text ms"]
            if floor and floor["first text ms"] and row["first text ms"]
            else None
        )
        if row is floor:
            row["first GPU ms"] = None
    return rows


def _median_ms(column: tuple[float | None, ...]) -> float | None:
    known = [value for value in column if value is not None]
    return round(median(known) * 1e3, 1) if known else None


def probes(env: dict[str, str], seconds: float) -> Rows:
    """The probe by itself."""
    rows: Rows = []
    for name, is_shipped in (("as a child (local)", False), ("as over ssh", True)):
        cost = probe.measure(env, seconds, is_shipped=is_shipped)
        rows.append(
            {
                "probe": name,
                "CPU %": 100 * cost.cpu_ratio,
                "RSS MiB": round(cost.rss_mib, 1),
                "peak MiB": round(cost.peak_mib, 1),
                "bytes/line": round(cost.line_bytes),
                "driver calls/s": round(cost.calls_per_s, 1),
            }
        )
    return rows


def machine() -> str:
    """The machine in one line."""
    now = datetime.now(UTC).date().isoformat()
    load = os.getloadavg()[0]
    python = platform.python_version()
    return f"{now}, {os.cpu_count()} cores, load {load:.1f}, Python {python}, {platform.machine()}"


NODE_PARTS = ("once", "paint", "watch", "probe")
"""Measured on the pretend machine."""
SCRIPTS = {
    "first": ("first_screen",),
    "past": ("past", "1000", "600"),
    "ledger": ("ledger", "8000", "200"),
    "detection": ("detection", "1000", "8"),
    "recording": ("recording", "600"),
    "queue": ("queue",),
}
"""Parts that are commands of their own, small enough for a quarter of an hour."""
FLEETS = {
    "pages": ("pages",),
    "prometheus": ("gathered",),
    "victoria": ("gathered", "--victoria"),
    "recorded": ("gathered", "--recorded"),
    "ssh": ("fan_out", "200", "--sshd", "--period", "1", "--for", "120"),
    "attached": ("attached",),
}
"""Large fleets over HTTP and SSH, in ten minutes: `--only fleets` is all of them."""
PARTS = (*NODE_PARTS, "live", *SCRIPTS)


def on_a_node(
    wanted: list[str], env: dict[str, str], options: argparse.Namespace, has_peers: bool
) -> dict[str, Rows]:
    """The parts that are measured on the pretend machine, printed as they come."""
    nvitop = {"nvitop --interval 1": [peers.program("nvitop"), "--interval", "1"]}
    gpumon = {"gpumon local": [GPUMON, "local"]} | (nvitop if has_peers else {})
    empty = {"empty Textual app": [sys.executable, "-m", "tests.bench.empty_app"]}
    found: dict[str, Rows] = {}
    if "once" in wanted:
        found["once"] = once(env, options.runs, has_peers)
        show("Cold, one answer (medians; memory of the largest process)", found["once"])
    if "paint" in wanted:
        found["paint"] = painting(env, options.paints, gpumon | empty, options.each)
        show("Start in a 200x60 terminal (medians)", found["paint"])
    if "watch" in wanted:
        for size in options.watch_size or ("200x60",):
            columns, lines = map(int, size.split("x"))
            found[f"watch {size}"] = watching(
                env, options.seconds, gpumon, (columns, lines), options.each
            )
            title = f"Watching at 1 Hz for {options.seconds:g} s, {size}"
            show(title, found[f"watch {size}"])
    if "probe" in wanted:
        found["probe"] = probes(env, options.seconds / 2)
        show("The probe alone, at 1 Hz", found["probe"])
    return found


def main() -> int:
    """Exit code of the benchmark: 0 unless it could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=15, help="runs of each one-shot")
    parser.add_argument("--paints", type=int, default=5, help="starts in the terminal")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a watch")
    parser.add_argument("--size", default="120x40", help="terminal of the live part")
    parser.add_argument(
        "--watch-size", action="append", metavar="COLUMNSxROWS", help="terminals of a watch"
    )
    parser.add_argument("--each", type=int, default=1, help="processes on each GPU")
    parser.add_argument("--only", choices=(*PARTS, "fleets", *FLEETS), action="append")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables there as well")
    options = parser.parse_args()
    wanted: list[str] = options.only or list(PARTS)
    if "fleets" in wanted:
        wanted += FLEETS
    scripts = {**SCRIPTS, **FLEETS}
    trouble = peers.install() if {"once", "paint", "watch", "live"} & set(wanted) else ""
    if trouble:
        print(trouble)
    about = machine()
    print(f"{GPUS} GPUs, {GPUS * options.each} processes, stand-in driver; {about}")
    found: dict[str, Rows] = {}
    try:
        if set(NODE_PARTS) & set(wanted):
            with (
                tempfile.TemporaryDirectory() as folder,
                busy_node(Path(folder), options.each) as env,
            ):
                found |= on_a_node(wanted, env, options, not trouble)
        if "live" in wanted:
            found |= live.show_live(live.WHICH, options.size, 10, not trouble)
    except CompilerMissingError as error:
        print(error)
        return 1
    for part in (part for part in scripts if part in wanted):
        module, *arguments = scripts[part]
        print(f"\n{part}: python -m tests.bench.{' '.join(scripts[part])}", flush=True)
        subprocess.run([sys.executable, "-m", f"tests.bench.{module}", *arguments], check=False)
    if options.json:
        options.json.write_text(json.dumps({"machine": about, **found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
