"""`python -m tests.bench.fan_out NODES`: how soon and how steadily many nodes are read.

gpumon reads them over a stand-in `ssh`, of which some never connect and some hang after
login, or with --sshd over real sshd on this machine. History, detection and books run as ever.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from gpumon.sources.probes.clients import LOGIN_CPU_S
from tests.bench import tree
from tests.bench.fan_out import loopback, standin
from tests.bench.shown import show
from tests.lab.standin.driver import CompilerMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

PROMISED_S: Final = 60.0
"""By then every healthy node is to be read, and from then on no period is to be missed."""
MISSED_PERIODS: Final = 1.5
"""Two reports of a node so many periods apart have missed the one between them."""
LOOK_S: Final = 5.0
"""Processes are counted so often."""


class Seen:
    """What the pictures of a watch say of the nodes, picture by picture."""

    def __init__(self, began_at: float, period_s: float, healthy: frozenset[str]) -> None:
        """Nothing has come; `began_at` is the Unix time of the start."""
        self._began_at = began_at
        self._period_s = period_s
        self._healthy = healthy
        self._last: dict[str, float] = {}
        self.first_s: dict[str, float] = {}
        """Seconds from the start to the first report of each healthy node."""
        self.missed: Counter[str] = Counter()
        """Periods without a report, from when all of them were promised to be read."""
        self.longest_s = 0.0
        """Between two reports of a node in that time."""
        self.pictures = 0
        self.late_s = 0.0
        """How late the latest picture was."""
        self.words: Counter[str] = Counter()
        """What was said of trouble, its subject and numbers aside."""

    def take(self, picture: Mapping[str, Any]) -> None:
        """One picture."""
        self.pictures += 1
        self.late_s = max(self.late_s, picture["lateness_s"])
        for node, taken_at in picture["reports"]:
            if node in self._healthy:
                self._report(node, taken_at)
        for message in picture["errors"]:
            self.words["".join("#" if c.isdecimal() else c for c in message)] += 1

    def _report(self, node: str, taken_at: float) -> None:
        before = self._last.get(node)
        if before is not None and taken_at - before < 0.1 * self._period_s:
            return
        self._last[node] = taken_at
        self.first_s.setdefault(node, taken_at - self._began_at)
        if before is not None and taken_at > self._began_at + PROMISED_S:
            self._gap(node, taken_at - max(before, self._began_at + PROMISED_S))

    def _gap(self, node: str, seconds: float) -> None:
        self.longest_s = max(self.longest_s, seconds)
        if seconds > MISSED_PERIODS * self._period_s:
            self.missed[node] += round(seconds / self._period_s) - 1

    def end(self, ended_at: float) -> None:
        """Nodes that nothing came of at the end have missed that, too."""
        for node in self._healthy:
            since = max(self._last.get(node, 0.0), self._began_at + PROMISED_S)
            # The newest picture may be a period old, and the report in it another one.
            if ended_at - since > (MISSED_PERIODS + 1.0) * self._period_s:
                self._gap(node, ended_at - since)


def _read(stdout: IO[bytes], seen: Seen) -> None:
    for line in stdout:
        seen.take(json.loads(line))


class Processes:
    """CPU time and memory of a program and all that it started, by name."""

    def __init__(self, pid: int) -> None:
        """Nothing has been looked at."""
        self._pid = pid
        self._names: dict[int, str] = {}
        self._cpu_s: dict[int, float] = {}
        self.most: Counter[str] = Counter()
        """Most processes of a name at once."""

    def look(self) -> None:
        """Count them, and note their CPU time: what ends before the next look is not in it."""
        found: Counter[str] = Counter()
        for pid in tree.descendants(self._pid):
            name = self._name(pid)
            found[name] += 1
            try:
                self._cpu_s[pid] = time.clock_gettime((~pid << 3) | 2)
            except OSError:
                continue
        self.most |= found

    def _name(self, pid: int) -> str:
        if self._names.get(pid) in (None, "starting"):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                return "ended"
            if b"gpumon.detect.worker.supervisor" in words:
                self._names[pid] = "worker, supervisor"
            elif pid == self._pid:
                self._names[pid] = "gpumon"
            else:
                is_ssh = Path(words[0].decode()).name in ("ssh", "sh")
                self._names[pid] = "ssh" if is_ssh else "starting"
        return self._names[pid]

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far, by name."""
        total: dict[str, float] = {}
        for pid, used_s in self._cpu_s.items():
            name = self._names.get(pid, "ended")
            total[name] = total.get(name, 0.0) + used_s
        return total

    def memory_mib(self) -> dict[str, tuple[float, float]]:
        """Resident and own memory now, by name: pages that n processes share count 1/n."""
        found: dict[str, tuple[float, float]] = {}
        for pid in tree.descendants(self._pid):
            used = tree.usage(pid)
            if used is not None:
                name = self._name(pid)
                rss, pss = found.get(name, (0.0, 0.0))
                found[name] = rss + used.rss_mib, pss + used.pss_mib
        return found


def measure(
    env: Mapping[str, str], nodes: int, healthy: frozenset[str], period_s: float, seconds: float
) -> None:
    """Watch the nodes for so long, and print what came of it."""
    words = [sys.executable, "-m", "tests.bench.fan_out.watcher", f"{period_s:g}"]
    words.append(f"ssh://n[00001-{nodes:05}]")
    began_at = time.time()
    seen = Seen(began_at, period_s, healthy)
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=dict(env)) as watching:
        assert watching.stdout is not None
        reader = threading.Thread(target=_read, args=(watching.stdout, seen))
        reader.start()
        processes = Processes(watching.pid)
        while (left_s := began_at + PROMISED_S - time.time()) > 0 and watching.poll() is None:
            time.sleep(min(LOOK_S, left_s))
            processes.look()
        up_s, since = processes.cpu_s(), time.monotonic()
        while time.time() < began_at + seconds and watching.poll() is None:
            time.sleep(LOOK_S)
            processes.look()
        steady_s, took_s = processes.cpu_s(), time.monotonic() - since
        ended_at, memory = time.time(), processes.memory_mib()
        watching.send_signal(signal.SIGTERM)
        code = watching.wait()
        reader.join()
    seen.end(ended_at)
    _tell(seen, healthy, code)
    show(
        "Processes",
        [
            {
                "program": name,
                "most at once": count,
                "CPU s, first minute": round(up_s.get(name, 0.0), 1),
                "CPU %, afterwards": 100 * (steady_s.get(name, 0.0) - up_s.get(name, 0.0)) / took_s,
                "RSS MiB": round(memory.get(name, (0.0, 0.0))[0]),
                "PSS MiB": round(memory.get(name, (0.0, 0.0))[1]),
            }
            for name, count in processes.most.items()
            if name in ("gpumon", "worker, supervisor", "ssh")
        ],
    )


def _tell(seen: Seen, healthy: frozenset[str], code: int) -> None:
    times = sorted(seen.first_s.values())
    show(
        "Healthy nodes",
        [
            {
                "nodes": len(healthy),
                "read": len(times),
                "median s": round(times[len(times) // 2], 1) if times else None,
                "last s": round(times[-1], 1) if times else None,
                "within 60 s": sum(one <= PROMISED_S for one in times),
                "periods missed since": sum(seen.missed.values()),
                "of nodes": len(seen.missed),
                "longest gap s": round(seen.longest_s, 1),
            }
        ],
    )
    print(f"\n{seen.pictures} pictures, at most {seen.late_s:.1f} s late; ended with {code}")
    print("said of trouble, picture by picture:")
    for words, count in seen.words.most_common(12):
        print(f"  {count:6} x {words}")


def main() -> int:
    """Exit code of the benchmark: 0 unless it could not be run."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fan_out", description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=1000)
    parser.add_argument("--black-holed", type=int, default=0, help="nodes that never connect")
    parser.add_argument("--hanging", type=int, default=0, help="nodes that hang after login")
    parser.add_argument("--worst-first", action="store_true", help="these have the first names")
    parser.add_argument("--sshd", action="store_true", help="real sshd on this machine instead")
    parser.add_argument("--period", type=float, default=10.0)
    parser.add_argument("--for", type=float, default=240.0, dest="seconds")
    parser.add_argument("--login-ms", type=float, default=1e3 * LOGIN_CPU_S,
                        help="CPU time of a stand-in's login")  # fmt: skip
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{asked.nodes} nodes, {asked.black_holed} black-holed, {asked.hanging} hanging")
    print(f"{os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CONFIG", "STATE", "CACHE")}
        if asked.sshd:
            healthy = frozenset(f"n{number:05}" for number in range(1, asked.nodes + 1))
            with loopback.environment(folder, asked.nodes) as env:
                measure({**env, **home}, asked.nodes, healthy, asked.period, asked.seconds)
            return 0
        who = standin.roles(asked.nodes, asked.black_holed, asked.hanging, asked.worst_first)
        healthy = frozenset(f"n{n:05}" for n, role in enumerate(who, 1) if role == "h")
        env = standin.environment(folder, who, asked.login_ms)
        measure({**env, **home}, asked.nodes, healthy, asked.period, asked.seconds)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CompilerMissingError, FileNotFoundError) as error:
        sys.exit(str(error))
