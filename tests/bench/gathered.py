"""`python -m tests.bench.gathered [GPUS]`: what a look at a server of a large fleet costs gpumon.

Another process answers as Prometheus does, from bodies that it has made before, so that gpumon's
own share is apart: CPU time of this process by step, and its peak memory. Values differ from look
to look. `--victoria`: it answers as VictoriaMetrics does, both as seen of real ones with 4,000 GPUs
(2.42; 1.79 and Debian sid's): series in the order of the labels that were asked for, so that values
come by UUID and times by host, `time()` as a vector of whole seconds, statistics behind the data;
Prometheus lists all in the order of its own series. `--hosts` adds node_exporter's and
lustre_exporter's series of every node: 96 CPUs, 8 ports of InfiniBand, 9 disks. Python looks for
garbage as seldom as in the terminal, or with `--headless` as in `--json`. It prints and asserts
nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import re
import resource
import socketserver
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from gpumon.cli import GC_THRESHOLDS
from gpumon.fleet.history.history import History
from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.newest import Newest
from gpumon.model.records.tick import Tick
from gpumon.sources.exporters.gpu_names import METRICS
from gpumon.sources.exporters.host_names import HOST_NAME, PARTS
from gpumon.sources.prometheus.client import TIMEOUT_S, Client
from gpumon.sources.prometheus.hosts import Hosts
from gpumon.sources.prometheus.nodes import Nodes, frames_of
from gpumon.sources.prometheus.questions import Questions
from gpumon.sources.prometheus.recall import merged
from gpumon.sources.prometheus.rules import RECORDED, SAMPLED_AT
from gpumon.sources.prometheus_address import EngineAddress
from gpumon.tui.textual_private.idle_gc import FALLBACK
from tests.bench.roads import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection

GPUS_A_NODE: Final = 8
BODIES: Final = 2
"""As many looks differ from one another."""

NAMES: Final = tuple(
    next(known for known in METRICS if known.endswith((f"_DEV_{name}", f"_PROF_{name}")))
    for name in DEFAULT
)
"""dcgm-exporter's own choice of metrics."""


def uuid_of(gpu: int) -> str:
    """A UUID as long as NVML's, in no order."""
    return f"GPU-{gpu * 2246822519 % 2**32:08x}-8c4e-1e64-9a3b-{gpu * 2654435761 % 2**48:012x}"


def value_of(name: str, gpu: int, turn: int) -> str:
    """A value as the server writes it."""
    if name.endswith("ENERGY_CONSUMPTION"):
        return str(5_000_000_000 + gpu * 1000 + turn * 9_000_000)
    if "FB_" in name:
        return str(30_000 + (gpu + turn) % 9000)
    if "_PROF_" in name and "BYTES" not in name:
        return f"0.{(gpu * 7 + turn * 13) % 1000:03d}"
    if "CLOCK" in name:
        return str(1100 + (gpu + turn) % 900)
    if "REMAP" in name or "REPLAY" in name or "COUNTER" in name:
        return "0"
    return str((gpu + turn * 3) % 90 + 5)


class Bodies:
    """Everything that the server says, made once."""

    def __init__(self, gpus: int, hosts: int = 0, *, is_victoria: bool = False) -> None:
        # Within a host by UUID, as the labels' names are in the order of the alphabet.
        self._uuids = sorted(
            ((gpu, uuid_of(gpu)) for gpu in range(gpus)),
            key=lambda one: (one[0] // GPUS_A_NODE, one[1]),
        )
        listed = sorted(self._uuids, key=lambda one: one[1]) if is_victoria else self._uuids
        self._end = ENDS[is_victoria]
        self.values = [
            {
                name: b'{"status":"success","data":{"resultType":"vector","result":['
                + ",".join(
                    f'{{"metric":{{"UUID":"{uuid}"}},'
                    f'"value":[1800000000.123,"{value_of(name, gpu, turn)}"]}}'
                    for gpu, uuid in listed
                ).encode()
                + self._end
                for name in NAMES
            }
            for turn in range(BODIES)
        ]
        self.count = gpus
        self.hosts = hosts
        self.of_hosts = [host_bodies(hosts, turn) for turn in range(BODIES)] if hosts else []

    def times(self, now: float) -> bytes:
        """Every GPU with all its labels, as old as now."""
        rows = ",".join(
            f'{{"metric":{{"DCGM_FI_DRIVER_VERSION":"550.54.15",'
            f'"Hostname":"gpu{gpu // GPUS_A_NODE:05d}","UUID":"{uuid}",'
            f'"device":"nvidia{gpu % GPUS_A_NODE}","gpu":"{gpu % GPUS_A_NODE}",'
            f'"instance":"gpu{gpu // GPUS_A_NODE:05d}:9400",'
            f'"modelName":"NVIDIA H100 80GB HBM3",'
            f'"pci_bus_id":"00000000:{0x1B + gpu % GPUS_A_NODE:02X}:00.0"}},'
            f'"value":[{now:.3f},"{now - 4.0:.3f}"]}}'
            for gpu, uuid in self._uuids
        )
        head = b'{"status":"success","data":{"resultType":"vector","result":['
        return head + rows.encode() + self._end


ENDS: Final = (b"]}}", b']},"stats":{"seriesFetched": "80000","executionTimeMsec":712}}')
"""How answers of Prometheus and of VictoriaMetrics end."""

HOST_CPUS: Final = 96
MODES: Final = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")
PORTS: Final = tuple({"device": f"mlx5_{number}", "port": "1"} for number in range(8))
DISKS: Final = (*({"device": f"nvme{number}n1"} for number in range(8)), {"device": "sda"})
INTERFACES: Final = tuple(
    {"device": name} for name in ("eth0", "eth1", "lo", "docker0", *(f"ib{n}" for n in range(8)))
)
MOUNTS: Final = tuple(
    {"device": "d", "fstype": kind, "mountpoint": place}
    for kind, place in (
        *(("ext4", "/"), ("xfs", "/scratch"), ("ext4", "/var"), ("vfat", "/boot/efi")),
        *(("tmpfs", "/run"), ("tmpfs", "/dev/shm"), ("tmpfs", "/run/user/0"), ("tmpfs", "/tmp")),
    )
)
TARGETS: Final = tuple(
    {"component": "client", "target": f"{name}-ffff8f1c2a3b4c00"} for name in ("work", "home")
)


def series_of(name: str) -> tuple[dict[str, str], ...]:
    """Labels of one host's series of a metric, as the server's answer has them."""
    if name == "node_cpu_seconds_total":
        return tuple({"mode": mode} for mode in MODES)
    if name == "node_processes_state":
        return tuple({"state": state} for state in "DIRSZ")
    for begin, found in (
        ("node_infiniband_", PORTS),
        ("node_disk_", DISKS),
        ("node_network_", INTERFACES),
        ("node_filesystem_", MOUNTS),
        ("lustre_", TARGETS),
    ):
        if name.startswith(begin):
            return found
    return ({},)


HOST_METRICS: Final = tuple(
    name for name in PARTS if not name.startswith(("node_mountstats_", "gpfs_"))
)


def host_bodies(hosts: int, turn: int) -> dict[str, bytes]:
    """What the server says of each metric of hosts, by name."""
    found = {}
    for name in HOST_METRICS:
        own = series_of(name)
        value = "4" if name.endswith("_id") else None
        rows = (
            (host, labels, value or str(1000 + (host * 31 + n * 7) % 977 + turn * 500))
            for host in range(hosts)
            for n, labels in enumerate(own)
        )
        found[name] = _listed(
            ({**labels, "instance": f"gpu{host:05d}:9100"}, text) for host, labels, text in rows
        )
    names = (
        {"instance": f"gpu{host:05d}:9100", "nodename": f"gpu{host:05d}"} for host in range(hosts)
    )
    found[HOST_NAME] = _listed((labels, "1") for labels in names)
    return found


def _listed(rows: Iterable[tuple[dict[str, str], str]]) -> bytes:
    """Series at one instant, their labels in order, as Prometheus writes them."""
    made = (
        f'{{"metric":{json.dumps(dict(sorted(labels.items())), separators=(",", ":"))},'
        f'"value":[1800000000.123,"{text}"]}}'
        for labels, text in rows
    )
    head = b'{"status":"success","data":{"resultType":"vector","result":['
    return head + ",".join(made).encode() + b"]}}"


class _Handler(socketserver.StreamRequestHandler):
    bodies: Bodies
    began = time.time()
    looks = 0
    is_recorded = False
    is_victoria = False
    told: bytes = b""

    def handle(self) -> None:
        while line := self.rfile.readline():
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            body = self._answer(line.split(b" ")[1].decode())
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            )
            self.wfile.write(body)

    def _answer(self, target: str) -> bytes:
        split = urlsplit(target)
        if split.path.endswith("/values"):
            made = [RECORDED[name] for name in NAMES if name in RECORDED]
            recorded = [SAMPLED_AT, *made] if self.is_recorded else []
            return _said([*NAMES, *recorded, *(HOST_METRICS if self.bodies.hosts else ())])
        question = parse_qs(split.query)["query"][0]
        own = type(self)
        now = own.began + own.looks * 30.0
        if question == "time()":
            own.looks += 1
            now = own.began + own.looks * 30.0
            own.told = self.bodies.times(now)
            if own.is_victoria:
                whole = {"metric": {}, "value": [int(now), str(int(now))]}
                return _said({"resultType": "vector", "result": [whole]})
            return _said({"resultType": "scalar", "result": [now, f"{now:.3f}"]})
        if name := next((one for one in _WORDS.findall(question) if one in _OF_HOSTS), None):
            return self._answer_of_hosts(name, question, now)
        if question == f"{SAMPLED_AT} + 0" or "(timestamp(" in question:
            return own.told
        if question.endswith("[300s]"):
            times = [[now - 300.0 + 15.0 * n, "1"] for n in range(20)]
            return _said({"resultType": "matrix", "result": [{"metric": {}, "values": times}]})
        if question.startswith("count("):
            one = {"metric": {}, "value": [now, str(self.bodies.count)]}
            return _said({"resultType": "vector", "result": [one]})
        if question.startswith("gpumon:"):
            question = question.removeprefix("gpumon:").partition(":")[0]
            return self.bodies.values[own.looks % BODIES][question]
        return self.bodies.values[own.looks % BODIES][question.rpartition("(")[2].rstrip(")")]

    def _answer_of_hosts(self, name: str, question: str, now: float) -> bytes:
        hosts = range(self.bodies.hosts)
        if "(timestamp(" in question:
            number = f"{now - 3.0:.3f}"
        elif question.startswith("count by"):
            number = str(HOST_CPUS)
        else:
            return self.bodies.of_hosts[self.looks % BODIES][name]
        return _listed(({"instance": f"gpu{host:05d}:9100"}, number) for host in hosts)


_WORDS: Final = re.compile(r"[a-z]\w+")
_OF_HOSTS: Final = frozenset((*HOST_METRICS, HOST_NAME))


def _said(data: Any) -> bytes:
    return json.dumps({"status": "success", "data": data}).encode()


def _serve(options: argparse.Namespace, port_to: Connection) -> None:
    hosts = -(-options.gpus // GPUS_A_NODE) if options.hosts else 0
    _Handler.is_recorded, _Handler.is_victoria = options.recorded, options.victoria
    _Handler.bodies = Bodies(options.gpus, hosts, is_victoria=options.victoria)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        port_to.send(server.server_address[1])
        server.serve_forever()


async def _looks(port: int, count: int) -> None:
    """A look after another, each made a picture and remembered."""
    asks = Client(EngineAddress(f"http://127.0.0.1:{port}"), TIMEOUT_S)
    questions, nodes, newest, past = Questions(asks), Nodes(), Newest(), History()
    hosts = Hosts(asks)
    titles = ("ask s", "read s", "hosts s", "join s", "past s", "all s", "wall s")
    print(f"{'look':>5}" + "".join(f"{title:>8}" for title in titles) + f"{'MiB':>7}")
    for number in range(count):
        begun = time.monotonic()
        spent: list[float] = []

        def note(step: Callable[[], object], into: list[float] = spent) -> Any:
            at = time.process_time()
            found = step()
            into.append(time.process_time() - at)
            return found

        at = time.process_time()
        seen = await questions.poll()
        spent.append(time.process_time() - at)
        now = seen.asked_at
        told, errors = note(partial(nodes.read, seen, now, 60.0))
        at = time.process_time()
        of_hosts = await hosts.poll(questions.host_names, {one.node for one in told}, seen.at, 60.0)
        told = merged(told, of_hosts)
        spent.append(time.process_time() - at)
        frames = frames_of(told, "prometheus+http://m", now, 0.0, 60.0)
        assert not errors
        newest.take(frames)
        picture = note(partial(join, newest.frames, None, newest.node_errors, now, 60.0))
        tick = Tick(
            *(number, now, now, 30.0, (), picture.nodes, picture.gpus),
            *((), None, (), (), (), 0.0),
        )
        note(partial(past.append, tick))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        cells = "".join(f"{part:8.2f}" for part in (*spent, sum(spent), time.monotonic() - begun))
        print(f"{number:5}{cells}{peak:7.0f}", flush=True)
    await asks.close()


def main() -> None:
    """Look a few times at a fleet."""
    made = argparse.ArgumentParser(prog="python -m tests.bench.gathered")
    made.add_argument("gpus", nargs="?", type=int, default=80_000)
    made.add_argument("--looks", type=int, default=4)
    made.add_argument("--recorded", action="store_true", help="the server records our rules")
    made.add_argument("--victoria", action="store_true", help="it answers as VictoriaMetrics does")
    made.add_argument("--hosts", action="store_true", help="it has gathered hosts' pages, too")
    made.add_argument("--headless", action="store_true", help="as --json collects garbage")
    options = made.parse_args()
    gc.set_threshold(*(GC_THRESHOLDS if options.headless else FALLBACK))
    mine, its = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(options, its), daemon=True
    )
    server.start()
    try:
        asyncio.run(_looks(mine.recv(), options.looks))
    finally:
        server.kill()


if __name__ == "__main__":
    main()
