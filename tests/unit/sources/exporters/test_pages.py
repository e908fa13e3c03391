"""The source of a target that is pages of exporters."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.sources.exporter_address import PageAddress
from gpumon.sources.exporters import pages, pauses
from gpumon.sources.exporters.pages import ExporterPages
from gpumon.sources.http import loop
from gpumon.sources.source import SystemClock, Wish
from tests.unit.sources.exporters.page_server import Answer, PageServer, page
from tests.unit.sources.running import running
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.model.records.frame import Frame


@pytest.fixture
def servers() -> Iterator[list[PageServer]]:
    found = [PageServer(Answer(page(2, host=f"gpu0{number}"))) for number in (1, 2)]
    yield found
    for server in found:
        server.stop()


Open = Any


@pytest.fixture
def opened() -> Iterator[Open]:
    with running() as start:

        def open_(
            *addresses: PageAddress,
            once: bool = False,
            period_s: float = 0.05,
            timeout_s: float = 20.0,
        ) -> tuple[ExporterPages, Callable[[], list[Frame]]]:
            clock = SystemClock()
            source = ExporterPages("dcgm+http://x", addresses, period_s, clock, once, timeout_s)
            return source, start(source)

        yield open_


def address(server: PageServer, node: str = "gpu01", *, has_name: bool = True) -> PageAddress:
    return PageAddress(server.url, node, has_name)


def test_a_single_look_reads_each_page_once(servers: list[PageServer], opened: Open) -> None:
    pair = [address(server, f"gpu0{number}") for number, server in enumerate(servers, 1)]
    source, arrived = opened(*pair, once=True)
    eventually(lambda: not source.pending(), "both have answered")
    assert sorted(frame.node for frame in arrived()) == ["gpu01", "gpu02"]
    for frame in arrived():
        assert frame.origin == "dcgm+http://x"
        assert frame.block("gpu").keys == ("GPU-0", "GPU-1")
        assert frame.errors == ()
    assert [len(server.requests) for server in servers] == [1, 1]


def test_pages_come_again_on_their_beat_over_one_connection(
    servers: list[PageServer], opened: Open
) -> None:
    _, arrived = opened(address(servers[0]))
    eventually(lambda: len(arrived()) >= 4, "four frames arrive")
    assert servers[0].connections == 1
    times = [frame.taken_at for frame in arrived()]
    assert times == sorted(times)


def test_a_longer_period_is_kept_to_until_a_shorter_one_is_wished(
    servers: list[PageServer], opened: Open
) -> None:
    source, arrived = opened(address(servers[0]), period_s=3600.0)
    eventually(lambda: len(arrived()) == 1, "the first frame arrives")
    source.wish(Wish(period_s=0.02))
    eventually(lambda: len(arrived()) >= 4, "more arrive")


def test_a_node_that_is_looked_at_is_read_oftener(servers: list[PageServer], opened: Open) -> None:
    source, arrived = opened(address(servers[0]), period_s=3600.0)
    eventually(lambda: len(arrived()) == 1, "the first frame arrives")
    source.wish(Wish(zoom_nodes=("gpu01",)))
    eventually(lambda: len(arrived()) == 2, "another arrives at once")


@pytest.mark.parametrize(
    ("node", "has_name", "shown"),
    [("login-gpu7", True, "login-gpu7"), ("127.0.0.1:9401", False, "gpu01")],
)
def test_a_node_is_called_as_asked_for_unless_its_page_says_it_better(
    servers: list[PageServer], opened: Open, node: str, has_name: bool, shown: str
) -> None:
    source, arrived = opened(address(servers[0], node, has_name=has_name), once=True)
    eventually(lambda: not source.pending(), "it has answered")
    (frame,) = arrived()
    assert (frame.node, frame.host_names) == (shown, ("gpu01",))


def test_what_fails_is_told_and_taken_back_when_it_answers(
    servers: list[PageServer], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "RETRY_S", (0.01, 0.02))
    servers[0].answer = Answer(status="500 No")
    _, arrived = opened(address(servers[0], "127.0.0.1:1", has_name=False))
    eventually(lambda: len(arrived()) >= 2, "it has failed twice")
    assert {frame.node for frame in arrived()} == {"127.0.0.1:1"}
    assert arrived()[0].errors[0].where == "127.0.0.1:1"
    assert arrived()[0].blocks == {}
    servers[0].answer = Answer(page(1))
    eventually(lambda: arrived()[-1].node == "gpu01" or arrived()[-2].node == "gpu01", "it answers")
    cleared = [frame for frame in arrived() if frame.node == "127.0.0.1:1" and not frame.errors]
    assert len(cleared) == 1
    servers[0].answer = Answer(status="500 No")
    eventually(lambda: bool(arrived()[-1].errors), "it fails again")
    assert arrived()[-1].node == "gpu01"


def test_a_page_that_fails_rests_ever_longer_until_somebody_asks(
    servers: list[PageServer], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "RETRY_S", (3600.0, 3600.0))
    servers[0].answer = Answer(status="500 No")
    source, arrived = opened(address(servers[0]))
    eventually(lambda: len(arrived()) == 1, "it has failed")
    source.wish(Wish(is_by_hand=True))
    eventually(lambda: len(arrived()) == 2, "it is tried again")


def test_an_exporter_that_ends_and_comes_back_is_read_again(opened: Open) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        _, arrived = opened(PageAddress(f"http://127.0.0.1:{port}/metrics", "gpu01", has_name=True))
        eventually(lambda: bool(arrived()), "it has failed")
        assert arrived()[0].errors[0].message == "cannot be reached: Connection refused"
    server = PageServer(Answer(page(1)), port=port)
    try:
        eventually(lambda: bool(arrived()[-1].blocks), "it is read")
        assert arrived()[-1].errors == ()
    finally:
        server.stop()


def test_what_an_exporter_told_is_over_once_it_has_failed_for_two_periods(
    servers: list[PageServer], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "RETRY_S", (0.01, 0.02))
    monkeypatch.setattr(pages, "RETRY_S", (0.0, 0.02))
    _, arrived = opened(address(servers[0]), period_s=0.2)
    eventually(lambda: bool(arrived()), "it is read")
    # As of one that begins, which is asked each period.
    servers[0].answer = Answer(status="503 No")
    eventually(lambda: sum(bool(frame.errors) for frame in arrived()) >= 3, "it fails thrice")
    first, second, third = [frame for frame in arrived() if frame.errors][:3]
    assert first.over_at is not None
    assert first.over_at - first.taken_at <= 2.25 * 0.2
    assert second.over_at == pytest.approx(first.over_at - 0.25 * 0.2, abs=0.001)
    assert third.over_at == pytest.approx(second.over_at, abs=0.001)
    servers[0].answer = Answer(page(1))
    eventually(lambda: bool(arrived()[-1].blocks), "it is read again")
    assert arrived()[-1].over_at is None


def test_one_that_hangs_holds_up_no_other(servers: list[PageServer], opened: Open) -> None:
    servers[0].is_mute = True
    source, arrived = opened(address(servers[0]), address(servers[1], "gpu02"))
    eventually(lambda: len(arrived()) >= 3, "the other one goes on")
    assert {frame.node for frame in arrived()} == {"gpu02"}
    assert source.pending()


def test_more_pages_than_may_be_asked_at_once_have_their_turn(
    servers: list[PageServer], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_AT_ONCE", 1)
    nodes = [f"gpu{number:02}" for number in range(12)]
    source, arrived = opened(*(address(servers[0], node) for node in nodes), once=True)
    eventually(lambda: not source.pending(), "all have answered")
    assert sorted(frame.node for frame in arrived()) == nodes


def test_of_many_pages_no_connection_is_kept(
    servers: list[PageServer], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_CONNECTIONS", 0)
    _, arrived = opened(address(servers[0]))
    eventually(lambda: len(arrived()) >= 3, "three frames arrive")
    assert servers[0].connections >= 3


def test_a_page_of_an_unknown_exporter_is_an_error_of_its_node(
    servers: list[PageServer], opened: Open
) -> None:
    servers[0].answer = Answer(b"amd_gpu_power 1\n")
    source, arrived = opened(address(servers[0]), once=True)
    eventually(lambda: not source.pending(), "it has answered")
    (error,) = arrived()[0].errors
    assert error.where == "gpu01"
    assert "not a page that gpumon reads" in error.message


def test_a_name_that_nobody_knows_is_told(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> object:
        raise loop.socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(loop.socket, "getaddrinfo", unknown)
    source, arrived = opened(PageAddress("http://nowhere:9400/metrics", "nowhere", True), once=True)
    eventually(lambda: not source.pending(), "it has failed")
    assert "cannot be reached" in arrived()[0].errors[0].message


def test_a_source_that_is_closed_before_it_runs_reads_nothing(servers: list[PageServer]) -> None:
    source = ExporterPages("x", [address(servers[0])], 1.0, SystemClock(), once=True)
    source.close()
    source.start(lambda: None)
    source._thread.close(20)
    assert source.poll() == []
    assert servers[0].requests == []


def test_pages_that_hang_leave_their_places_to_others(
    servers: list[PageServer],
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
    said: Callable[..., None],
) -> None:
    monkeypatch.setattr(pages, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(pages, "PLACE_S", 0.01)
    servers[0].is_mute = True
    silent = [address(servers[0], f"dead{number}") for number in range(5)]
    source, arrived = opened(*silent, address(servers[1]), once=True, timeout_s=3.0)
    eventually(lambda: any(frame.node == "gpu01" for frame in arrived()), "the other is read")
    assert source.pending()
    assert all(frame.blocks for frame in arrived())
    eventually(lambda: not source.pending(), "they are given up")
    (error,) = next(frame for frame in arrived() if frame.node == "dead0").errors
    said(error.message, error.hint)


def test_so_many_that_hang_keep_their_places(
    servers: list[PageServer], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_AT_ONCE", 1)
    monkeypatch.setattr(pages, "MOST_HANGING", 2)
    monkeypatch.setattr(pages, "PLACE_S", 0.01)
    servers[0].is_mute = True
    silent = [address(servers[0], f"dead{number}") for number in range(5)]
    source, _ = opened(*silent, once=True)
    eventually(lambda: len(servers[0].requests) == 3, "two have left a place, one keeps it")
    assert source.pending()
