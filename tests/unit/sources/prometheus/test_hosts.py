"""Hosts as a server has gathered them: whose they are, what is added up, and what is too old."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.sources.exporters.host_names import PARTS
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import hosts as module
from gpumon.sources.prometheus.hosts import Hosts
from gpumon.sources.prometheus.response import opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.block import Block
    from gpumon.sources.prometheus.cut import Orders
    from gpumon.sources.prometheus.response import Answer

AT = 1_800_000_000.0
PAGE = {
    "node_cpu_seconds_total": [
        ({"cpu": f"{cpu}", "mode": mode}, value)
        for cpu in range(4)
        for mode, value in (("user", 10.0), ("idle", 80.0), ("iowait", 5.0))
    ],
    "node_load1": [({}, 3.5)],
    "node_memory_MemTotal_bytes": [({}, 64e9)],
    "node_network_receive_bytes_total": [({"device": "eth0"}, 7e6), ({"device": "docker0"}, 9e9)],
    "node_filesystem_avail_bytes": [({"mountpoint": "/scratch", "fstype": "xfs"}, 5e9)],
    "node_infiniband_state_id": [({"device": "mlx5_0", "port": "1"}, 4.0)],
    "lustre_read_bytes_total": [({"component": "client", "target": "work-0123456789ab"}, 1e6)],
}
_SUM = re.compile(r"sum by \(([\w,]+)\) \(max by \([\w,]+\) \((\w+)\)\)")
_COUNT = re.compile(r"count by \(([\w,]+)\) \(max by \(([\w,]+)\) \((\w+)\{mode=\"idle\"\}\)\)")
_MAX = re.compile(r"max by \(([\w,]+)\) \((timestamp\()?(\w+)\)?\)")


class Server:
    """Answers the questions about hosts."""

    def __init__(self, *instances: str, host: str = "gpu01") -> None:
        self.at = AT
        self.grown = 0.0
        self.age_s = 1.0
        self.host = host
        self.instances = instances or ("gpu01.site:9100",)
        self.asked: list[str] = []
        self.refused: tuple[str, ...] = ()
        """No question with one of these in it has an answer."""
        self.is_of_question = True
        self.page = PAGE
        self.separators: tuple[str, str] | None = (",", ":")
        """As Prometheus writes; None: otherwise."""

    async def ask(
        self, path: str, params: Mapping[str, str], orders: Orders | None = None
    ) -> Answer:
        assert (path, params["nocache"]) == ("query", "1")
        question = params["query"]
        self.asked.append(question)
        if any(words in question for words in self.refused):
            raise FetchError(REFUSED, "ask less", is_of_question=self.is_of_question)
        result = [
            {"metric": labels, "value": [self.at, repr(v)]} for labels, v in self.rows(question)
        ]
        data: dict[str, Any] = {"resultType": "vector", "result": result}
        envelope = {"status": "success", "data": data}
        return opened(json.dumps(envelope, separators=self.separators).encode(), 200, orders)

    def rows(self, question: str) -> list[tuple[dict[str, str], float]]:
        if counted := _COUNT.fullmatch(question):
            idle = (labels for labels, _ in self.page[counted[3]] if labels["mode"] == "idle")
            cpus = {labels["cpu"] for labels in idle}
            return [({"instance": one}, float(len(cpus))) for one in self.instances]
        asked = _SUM.fullmatch(question) or _MAX.fullmatch(question)
        assert asked, question
        by, name = asked[1].split(","), asked[asked.re.groups]
        held = self.page.get(name, [])
        if name == "node_uname_info":
            held = [({"nodename": self.host}, 1.0)]
        sums: dict[tuple[tuple[str, str], ...], float] = {}
        for instance in self.instances:
            for labels, value in held:
                own = {**labels, "instance": instance}
                key = tuple((label, own[label]) for label in by if label in own)
                number = self.at - self.age_s if asked[2] == "timestamp(" else value + self.grown
                is_sum = asked.re is _SUM
                sums[key] = sums.get(key, 0.0) + number if is_sum else number
        return [(dict(key), value) for key, value in sums.items()]


REFUSED = "is too much"


def polled(hosts: Hosts, server: Server, *nodes: str) -> Mapping[str, Mapping[str, Block]]:
    return asyncio.run(hosts.poll([*PAGE, "node_odd"], nodes, server.at, 30.0))


def test_a_host_is_as_on_its_own_page_and_counters_become_rates() -> None:
    server = Server()
    hosts = Hosts(server)  # type: ignore[arg-type]
    blocks = polled(hosts, server, "gpu01", "gpu02")["gpu01"]
    node = blocks["node"]
    assert node.keys == ("gpu01",)
    assert (node.value("cpu_count", 0), node.value("load_1m", 0)) == (4, 3.5)
    assert node.value("host_mem_total_bytes", 0) == 64e9
    assert node.value("net_rx_bytes", 0) == 7e6
    assert node.value("cpu_busy_ratio", 0) is None
    assert blocks["local_filesystem"].value("free_bytes", 0) == 5e9
    assert blocks["nic"].label("state", 0) == "ACTIVE"
    assert blocks["filesystem"].label("fstype", 0) == "lustre"
    # Nothing new was gathered: what is known stays.
    assert polled(hosts, server, "gpu01")["gpu01"]["node"] == node
    server.at, server.grown = AT + 10.0, 10.0
    node = polled(hosts, server, "gpu01")["gpu01"]["node"]
    # Of three modes of four CPUs the same; one of them is work.
    assert node.value("cpu_busy_ratio", 0) == pytest.approx(1 / 3)
    assert node.value("net_rx_bytes_per_s", 0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("instance", "own_name", "node"),
    [
        ("gpu01:9100", "", "gpu01"),
        ("gpu01.site:9100", "", "gpu01"),
        ("10.0.0.7:9100", "gpu01.site", "gpu01"),
        ("localhost:9100", "gpu01", "gpu01"),
        ("login1:9100", "login1", ""),
    ],
)
def test_a_host_belongs_to_the_node_that_bears_its_name(
    instance: str, own_name: str, node: str
) -> None:
    server = Server(instance, host=own_name)
    found = polled(Hosts(server), server, "gpu01", "gpu02")  # type: ignore[arg-type]
    assert set(found) == ({node} if node else set())


def test_a_short_name_of_two_nodes_is_of_neither() -> None:
    server = Server("gpu01:9100")
    assert not polled(Hosts(server), server, "gpu01.north", "gpu01.south")  # type: ignore[arg-type]


def test_what_is_old_is_not_told_and_nothing_is_asked_where_nothing_is() -> None:
    server = Server()
    server.age_s = 60.0
    hosts = Hosts(server)  # type: ignore[arg-type]
    assert not polled(hosts, server, "gpu01")
    server.asked.clear()
    assert not asyncio.run(hosts.poll(["DCGM_FI_DEV_GPU_UTIL"], ["gpu01"], AT, 30.0))
    assert not server.asked


def test_of_a_large_fleet_no_host_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HOSTS", 1)
    server = Server()
    assert not polled(Hosts(server), server, "gpu01", "gpu02")  # type: ignore[arg-type]
    assert not server.asked


def test_of_a_server_of_many_hosts_their_number_alone_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most hosts of a site may have no GPU, and their values are as many."""
    monkeypatch.setattr(module, "MOST_HOSTS", 2)
    server = Server("gpu01:9100", "login1:9100", "store1:9100")
    assert not polled(Hosts(server), server, "gpu01")  # type: ignore[arg-type]
    assert all("timestamp(" in one for one in server.asked)
    server = Server("gpu01:9100", "login1:9100")
    assert set(polled(Hosts(server), server, "gpu01")) == {"gpu01"}  # type: ignore[arg-type]


def test_the_server_adds_up_cpus_and_every_metric_is_of_one_table() -> None:
    server = Server()
    polled(Hosts(server), server, "gpu01")  # type: ignore[arg-type]
    assert any(one.startswith("sum by (instance,mode)") for one in server.asked)
    assert not any("node_odd" in one for one in server.asked)
    assert set(PAGE) <= PARTS.keys()


@pytest.mark.parametrize(
    ("refused", "said", "missing"),
    [
        (("node_load1)",), "node_load1", "load_1m"),
        (("(sum by", "sum by (instance,mode)"), "node_cpu_seconds_total", "cpu_total_ticks"),
        (("count by",), "node_cpu_seconds_total", "cpu_count"),
        (("node_load1)", "node_memory_MemTotal_bytes)"), "node_load1 and 1 more", "load_1m"),
    ],
)
def test_a_metric_of_hosts_that_is_too_much_is_left_out_by_its_name(
    refused: tuple[str, ...], said: str, missing: str
) -> None:
    server = Server()
    server.refused = refused
    hosts = Hosts(server)  # type: ignore[arg-type]
    node = polled(hosts, server, "gpu01")["gpu01"]["node"]
    assert node.value(missing, 0) is None
    assert node.value("net_rx_bytes", 0) == 7e6
    ((text, hint),) = hosts.remarks
    assert text == f"shows no {said}: {REFUSED}"
    assert hint == "raise that limit of the server"
    server.refused, server.at = (), AT + 10.0
    assert polled(hosts, server, "gpu01")["gpu01"]["node"].value("load_1m", 0) == 3.5
    assert hosts.remarks == []


def test_when_an_exporter_was_read_another_of_its_metrics_says_as_well() -> None:
    server = Server()
    server.refused = ("timestamp(node_cpu_seconds_total)",)
    hosts = Hosts(server)  # type: ignore[arg-type]
    assert polled(hosts, server, "gpu01")["gpu01"]["node"].value("load_1m", 0) == 3.5
    assert hosts.remarks == []


def test_an_exporter_whose_times_are_too_much_is_left_out_and_the_others_stay() -> None:
    """Without the time between two samples no counter would give a rate."""
    server = Server()
    server.refused = ("timestamp(node_",)
    hosts = Hosts(server)  # type: ignore[arg-type]
    assert polled(hosts, server, "gpu01")["gpu01"].keys() == {"filesystem"}
    assert hosts.remarks == [(f"shows no node_*: {REFUSED}", "raise that limit of the server")]
    assert not any(one.endswith("(node_load1)") for one in server.asked)


def test_names_of_hosts_that_are_too_much_leave_those_that_are_known_by_address() -> None:
    server = Server()
    server.refused = ("nodename",)
    hosts = Hosts(server)  # type: ignore[arg-type]
    assert polled(hosts, server, "gpu01").keys() == {"gpu01"}
    assert hosts.remarks[0][0] == f"shows no node_uname_info: {REFUSED}"


def test_a_server_that_fails_is_asked_no_more_about_hosts() -> None:
    server = Server()
    server.refused, server.is_of_question = ("node_load1)",), False
    with pytest.raises(FetchError, match=REFUSED):
        polled(Hosts(server), server, "gpu01")  # type: ignore[arg-type]


def test_a_host_whose_samples_are_old_is_known_by_its_past() -> None:
    server = Server("10.0.0.7:9100", "login1:9100")
    server.age_s = 60.0
    hosts = Hosts(server)  # type: ignore[arg-type]
    assert not polled(hosts, server)
    known = hosts.known(["gpu01"])
    assert known.nodes == {"10.0.0.7:9100": "gpu01", "login1:9100": "gpu01"}
    assert known.timing == {"node_": "node_cpu_seconds_total", "lustre_": "lustre_read_bytes_total"}
    assert known.counts["node_load1"] == 2
    assert known.cpus["10.0.0.7:9100"] == 4
    assert hosts.known(["gpu02"]).nodes == {}


def test_what_is_remembered_of_hosts_changes_nothing() -> None:
    """Hosts that come, go or report other series are read as if each poll were the first."""
    server = Server("gpu01:9100", "gpu02:9100")
    hosts = Hosts(server)  # type: ignore[arg-type]
    nodes = [f"gpu{number:02}" for number in range(6)]
    disk = {"node_disk_read_bytes_total": [({"device": "sda"}, 5.0), ({"device": "sda1"}, 7.0)]}
    changes: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = (
        (("gpu01:9100", "gpu02:9100"), PAGE),
        (("gpu00:9100", "gpu01:9100", "gpu02:9100"), PAGE),
        (("gpu01:9100", "gpu00:9100"), {**PAGE, **disk}),
        (("gpu01:9100",), {**PAGE, "node_load1": []}),
        (("gpu05:9100", "gpu01:9100"), PAGE),
    )
    for instances, page in changes:
        server.instances, server.page, server.at = instances, {**page}, server.at + 10.0
        found = polled(hosts, server, *nodes)
        first = polled(Hosts(server), server, *nodes)  # type: ignore[arg-type]
        assert found.keys() == first.keys() == {one.partition(":")[0] for one in instances}
        for node, blocks in first.items():
            assert found[node].keys() == blocks.keys()
            for name, block in blocks.items():
                own = found[node][name]
                assert (own.keys, own.labels) == (block.keys, block.labels)
                assert {k: own.columns[k] for k in block.columns if not k.endswith(_OF_TWO)} == {
                    k: column for k, column in block.columns.items() if not k.endswith(_OF_TWO)
                }


_OF_TWO = ("_per_s", "_ratio", "_rtt_s", "_exec_s")
"""What follows from two polls."""


def test_an_answer_that_is_written_otherwise_is_read_as_well() -> None:
    server, other = Server(), Server()
    other.separators = None
    found, wanted = (polled(Hosts(one), one, "gpu01") for one in (other, server))  # type: ignore[arg-type]
    assert repr(found) == repr(wanted)


def test_hosts_that_report_the_same_share_why_the_rest_is_missing() -> None:
    server = Server("gpu01:9100", "gpu02:9100", host="")
    found = polled(Hosts(server), server, "gpu01", "gpu02")  # type: ignore[arg-type]
    for name in ("node", "nic", "filesystem", "local_filesystem"):
        assert found["gpu01"][name].missing is found["gpu02"][name].missing
