"""Evidence of links, ports, mounts, jobs and nodes on the curve that shows it."""

from __future__ import annotations

import pytest

from gpumon.fleet.history.history import History
from gpumon.model.finding import Evidence
from gpumon.model.records.block import Block, column_for
from gpumon.report.charts.evidence_places import places
from gpumon.report.facts.tick_index import Digest
from gpumon.report.pages.finding import finding_entries
from tests.worlds.tick import AT, finding, job_with_gpus, tick, uuid_of

UUID = uuid_of("n", 0)
OTHER = uuid_of("n", 1)


def columns(**values):
    whole = ("link_state", "nic_symbol_error", "link_receive_error_count")
    return {key: column_for(key in whole, value) for key, value in values.items()}


def blocks_at(number):
    """Link 2 of the first GPU goes down halfway, a port slows down and counts errors."""
    is_late = number >= 15
    links = tuple(f"{uuid}/{link}" for uuid in (UUID, OTHER) for link in range(4))
    states = [0 if is_late and key == f"{UUID}/2" else 1 for key in links]
    return {
        "link": Block(
            links,
            columns(
                link_state=states,
                link_speed_bytes_per_s=[
                    12.5e9 if is_late and key == f"{UUID}/3" else 25e9 for key in links
                ],
                link_receive_error_count=[number] * len(links),
                link_rx_bytes_per_s=[1e9] * len(links),
            ),
            {},
            {},
        ),
        "nic": Block(
            ("mlx5_0/1", "mlx5_1/1"),
            columns(
                nic_speed_gbps=[400.0, 100.0 if is_late else 400.0],
                nic_symbol_error=[7, 7 + 10 * number],
            ),
            {},
            {},
        ),
        "filesystem": Block(("/home", "/data"), columns(fs_read_exec_s=[0.01, 2.0]), {}, {}),
        "cgroup": Block(
            ("7", "8"),
            columns(job_mem_used_bytes=[1e9 * number, 5e9], job_mem_limit_bytes=[64e9, 64e9]),
            {},
            {},
        ),
    }


@pytest.fixture(scope="module")
def digest():
    history = History()
    view, gpus = job_with_gpus("7", {"m": 2, "n": 2})
    for number in range(30):
        at = AT - 10 * (29 - number)
        made = tick((view,), gpus, at=at, number=number)
        node = made.nodes["n"]._replace(blocks=blocks_at(number))
        made = made._replace(nodes={**made.nodes, "n": node})
        history.append(made)
    return Digest(made._replace(history=history.reader()))


def named(digest, subject, key, text, **changes):
    evidence = Evidence(key, subject, text)
    return [place.name for place in places(digest, finding(subject, **changes), evidence)]


@pytest.mark.parametrize(
    ("subject", "key", "text", "expected"),
    [
        (f"gpu:{UUID}", "link_state", "1 of 4 NVLinks inactive (link 2)", [f"{UUID}/2"]),
        (f"gpu:{UUID}", "link_state", "2 inactive (link 2, 0)", [f"{UUID}/2", f"{UUID}/0"]),
        (f"gpu:{UUID}", "link_receive_error_count", "link 1: 9 errors", [f"{UUID}/1"]),
        (f"gpu:{UUID}", "link_speed_bytes_per_s", "1 NVLink at 12.5 GB/s", [f"{UUID}/3"]),
        (f"gpu:{UUID}", "link_rx_bytes_per_s", "they are all alike", []),
        ("gpu:GPU-gone", "link_state", "link 2", []),
        ("node:n", "nic_speed_gbps", "port mlx5_0/1 at 400 Gb/s", ["n/mlx5_0/1"]),
        ("node:n", "nic_speed_gbps", "a port is slow", ["n/mlx5_1/1"]),
        ("node:n", "fs_read_exec_s", "reads from /home, take long", ["n//home"]),
        ("job:7", "job_mem_used_bytes", "on n: it grows", ["n/7"]),
        ("node:n", "cpu_busy_ratio", "busy", ["n"]),
        ("job:7", "cpu_busy_ratio", "busy on n", ["n", "m"]),
        ("node:gone", "cpu_busy_ratio", "busy", []),
        ("node:n", "squeue", "no field at all", []),
    ],
)
def test_which_entity_evidence_is_about(digest, subject, key, text, expected):
    assert named(digest, subject, key, text) == expected


def page(digest, subject, *evidence, width=100, height=24):
    shown = finding(subject, evidence=evidence, onset=AT - 140)
    entries = finding_entries(digest, shown, width, height)
    return ["".join(cell.text for cell in line) for entry in entries for line in entry]


def braille(line):
    return [char for char in line if "\u2801" <= char <= "\u28ff"]


def test_on_a_tall_screen_a_chart_is_taller(digest):
    evidence = Evidence("link_state", f"gpu:{UUID}", "1 of 4 NVLinks inactive (link 2)")
    low, tall = (
        sum("│" in line for line in page(digest, f"gpu:{UUID}", evidence, height=height))
        for height in (40, 60)
    )
    assert (low, tall) == (4, 8)


def test_a_link_that_goes_down_is_drawn_from_active_to_inactive(digest):
    words = "1 of 4 NVLinks inactive (link 2)"
    lines = page(digest, f"gpu:{UUID}", Evidence("link_state", f"gpu:{UUID}", words))
    title = next(at for at, line in enumerate(lines) if "link state" in line)
    assert lines[title].endswith("n:0 NVLink 2")
    top, bottom = lines[title + 1], lines[title + 4]
    assert braille(top)
    assert braille(bottom)
    assert top.index(braille(top)[0]) < bottom.rindex(braille(bottom)[-1])
    assert any("▲ onset" in line for line in lines)
    assert any("▔" in line for line in lines)


def test_a_port_s_counter_and_speed_are_drawn_and_one_chart_once(digest):
    lines = page(
        digest,
        "node:n",
        Evidence("nic_symbol_error", "node:n", "port mlx5_1/1: 290 symbol errors"),
        Evidence("nic_speed_gbps", "node:n", "port mlx5_1/1 at 100 Gb/s"),
        Evidence("nic_speed_gbps", "node:n", "port mlx5_1/1 again"),
    )
    titles = [line for line in lines if line.endswith("n mlx5_1/1")]
    assert len(titles) == 2
    assert "port symbol error" in titles[0]
    scale = lines[lines.index(titles[0]) + 1]
    assert scale.split("│")[0].strip() == "290"
    assert "500" in lines[lines.index(titles[1]) + 1].split("│")[0]


def test_many_links_of_one_piece_are_two_charts(digest):
    words = "4 of 4 NVLinks inactive (link 0, 1, 2, 3)"
    lines = page(digest, f"gpu:{UUID}", Evidence("link_state", f"gpu:{UUID}", words))
    assert sum("link state n:0 NVLink" in line for line in lines) == 2


def test_memory_of_a_job_is_drawn_up_to_its_limit(digest):
    lines = page(digest, "job:7", Evidence("job_mem_used_bytes", "job:7", "on n it grows"))
    title = next(at for at, line in enumerate(lines) if "job memory used" in line)
    assert lines[title].endswith("job 7 on n")
    assert "60 GiB" in lines[title + 1]


def test_what_no_curve_shows_stays_words(digest):
    evidence = Evidence("link_version", f"gpu:{UUID}", "link 2 speaks NVLink 3")
    lines = page(digest, f"gpu:{UUID}", evidence)
    assert not any("link version" in line for line in lines)
