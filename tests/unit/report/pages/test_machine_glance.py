"""A machine at a glance: host, GPUs, processes."""

from __future__ import annotations

import pytest

from gpumon.fleet.history.history import History
from gpumon.model.finding import Severity
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block
from gpumon.model.records.cluster import Process
from gpumon.report.facts.tick_index import Digest
from gpumon.report.pages import machine_glance as machine_glance_module
from gpumon.report.pages.machine_glance import CELL_S, PAST_CELLS, Commands, machine_glance
from gpumon.report.text.cells import Cell
from gpumon.report.wording.empty_states import PROCESSES_NOT_REPORTED
from tests.worlds import mig as mig_world
from tests.worlds.mig import on_cut
from tests.worlds.tick import AT, BUSY, finding, gpu, tick
from tests.worlds.workstation import Seat, workstation

GIB = 2.0**30


def process(number, uuids, gib, **fields):
    made = Process(
        node="n1", pid=4000 + number, name=f"train{number}", uid=1000, job_id=None, step=None,
        mem_used_bytes=dict.fromkeys(uuids, gib * GIB), why=None, user="ada",
        rank_vars={}, gpu_uuids=tuple(uuids),
    )  # fmt: skip
    return made._replace(**fields)


def machine(count=2, processes=(), **values):
    gpus = [gpu("n1", place, {**BUSY, **values}) for place in range(count)]
    gpus = [
        one._replace(processes=tuple(p for p in processes if one.uuid in p.mem_used_bytes))
        for one in gpus
    ]
    return tick((), gpus, queue_at=None)


def lines_of(made, width=120, height=30, history=None):
    made = made._replace(history=history)
    shown = machine_glance(Digest(made), made.nodes["n1"], width, height)
    return ["".join(cell.text for cell in line) for line in shown]


def uuids(made):
    return made.nodes["n1"].gpu_uuids


def test_each_gpu_has_a_line_with_what_it_uses_of_what_there_is():
    lines = lines_of(machine(sm_active_ratio=0.5, mem_used_bytes=20 * GIB, power_w=350.0))
    (first, second) = [line for line in lines if line.startswith("GPU ")]
    assert first.startswith("GPU 0 ")
    assert second.startswith("GPU 1 ")
    assert "SM   ████████░░░░░░░░  50 %" in first
    assert "20/80" in first
    assert "350/700 W" in first


class Past:
    """A history in which every GPU was fully busy, that counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def window(self, _uuid, _key, start, end):
        self.asked += 1
        return [start + 1.0, end], [1.0, 1.0]


@pytest.mark.parametrize(
    ("watched_s", "asked"),
    [pytest.param(3600.0, 2, id="long"), pytest.param(5.0, 5, id="new")],
)
def test_a_past_that_is_long_is_looked_up_every_ten_seconds(watched_s, asked):
    past, lasting = Past(), {}
    begin = AT // 10 * 10
    for second in (0.0, 2.0, 4.0, 9.0, 11.0):
        made = machine(1)._replace(
            history=past, at=begin + second, observed_since=begin + second - watched_s
        )
        machine_glance(Digest(made, lasting), made.nodes["n1"], 120, 30)
    assert past.asked == asked


def test_processes_are_put_together_again_once_their_node_reports_something_new(monkeypatch):
    made, counted, lasting = machine(1), [], {}
    put = machine_glance_module._processes
    monkeypatch.setattr(
        machine_glance_module, "_processes", lambda *given: counted.append(1) or put(*given)
    )

    def shown(at, block, width=120):
        node = made.nodes["n1"]._replace(blocks={"context": block, "process": block})
        machine_glance(Digest(made._replace(at=at), lasting), node, width, 30)
        return len(counted)

    begin, first, second = AT // 10 * 10, Block((), {}, {}, {}), Block((), {}, {}, {})
    assert [shown(begin + at, first) for at in (0.0, 2.0, 4.0)] == [1, 1, 1]
    assert [shown(begin + at, second) for at in (5.0, 7.0)] == [2, 2]
    # For ten seconds, not at each tenth: what was put together a moment ago is of now.
    assert [shown(begin + at, second) for at in (10.0, 14.9)] == [2, 2]
    assert shown(begin + 15.0, second) == 3
    assert shown(begin + 16.0, second, 80) == 4
    assert shown(begin + 12.0, second, 80) == 5
    assert len(lasting) < 5


def test_command_lines_take_the_room_that_is_left_and_are_shown_once_they_are_read():
    made, lasting = machine(1), {}
    held = made._replace(
        gpus={k: g._replace(processes=(process(1, (k,), 40),)) for k, g in made.gpus.items()}
    )
    block = Block((), {}, {}, {})
    node = held.nodes["n1"]._replace(blocks={"context": block, "process": block})

    command = [""]

    def one_view(*_):
        return Cell(command[0])

    def shown(width, text, read, view=one_view):
        command[0] = text
        commands = Commands(view, read)
        lines = machine_glance(Digest(held, lasting), node, width, 30, commands)
        return ["".join(cell.text for cell in line) for line in lines]

    assert "train1" in shown(100, "python train.py", 0)[-1]
    *_, head, line = shown(140, "python train.py " + "-" * 200, 1)
    assert "PROGRAM" not in head
    assert head.index("COMMAND") == line.index("python train.py")
    assert len(line.rstrip()) <= 140
    assert "python test.py" not in shown(140, "python test.py", 1)[-1]
    assert "python test.py" in shown(140, "python test.py", 2)[-1]
    # Another view asks for itself, however often the one before has read.
    assert "python test.py 2" in shown(140, "python test.py 2", 2, lambda *_: Cell(command[0]))[-1]


@pytest.mark.parametrize(
    ("width", "user", "shown"),
    [
        (200, "wilhelmina-of-orange", "wilhelmina-of-o…"),
        (200, "konstantin", "konstantin"),
        (120, "konstantin", "konstantin"),
        (120, "al", "al"),
    ],
)
def test_a_user_has_the_room_of_the_name_before_the_command_line(width, user, shown):
    digest = Digest(workstation((Seat(4242, user=user, tree_cores=2.0, tree_gib=3.0),)))
    (node,) = digest.tick.nodes.values()
    commands = Commands(lambda *_: Cell("python " + "x" * 300), 0)
    lines = machine_glance(digest, node, width, 30, commands)
    head, line = ["".join(cell.text for cell in line) for line in lines][-2:]
    assert line[head.index("USER") :].split()[0] == shown
    assert len(line.rstrip()) <= width
    # The others are as near as ever where names are short.
    assert head.index("MEM GiB") - head.index("USER") == max(8, len(shown)) + 1
    assert "COMMAND" in head


def test_what_is_not_known_is_no_empty_bar():
    lines = lines_of(machine(1, sm_active_ratio=None, gpu_util_ratio=None, mem_used_bytes=None))
    (line,) = [line for line in lines if line.startswith("GPU ")]
    assert "░" not in line
    assert "–" in line
    assert "UTIL" in line


def test_processes_of_all_gpus_are_in_one_table_the_largest_first():
    made = machine(3)
    a, b, c = uuids(made)
    made = machine(3, [process(1, [a], 10), process(2, [b, c], 30), process(3, [c], 0.4)])
    lines = lines_of(made)
    head = next(n for n, line in enumerate(lines) if "PROGRAM" in line)
    assert lines[head].split()[:3] == ["GPU", "PID", "PROGRAM"]
    shown = [line.split()[:3] for line in lines[head + 1 :]]
    assert shown == [
        ["1", "4002", "train2"], ["2", "4002", "train2"], ["0", "4001", "train1"],
        ["2", "4003", "train3"],
    ]  # fmt: skip


def test_where_there_is_little_room_processes_come_before_bars_and_the_rest_is_counted():
    made = machine(2)
    a, b = uuids(made)
    made = machine(2, [process(n, [a if n % 2 else b], n) for n in range(1, 21)])
    lines = lines_of(made, height=6)
    assert len(lines) <= 6
    assert not any(line.startswith("GPU 0") for line in lines)
    assert "more: :ps shows all" in lines[-1]
    counted = int(lines[-1].split()[0])
    assert counted + sum("train" in line for line in lines) == 20


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("height", [3, 8, 30])
def test_it_fits_into_its_room(width, height):
    made = machine(8)
    made = machine(8, [process(n, [uuid], 3) for n, uuid in enumerate(uuids(made))])
    lines = lines_of(made, width, height)
    assert len(lines) <= height
    assert all(len(line) <= width + 40 for line in lines if "W " in line)


UNREAD = {"name": None, "uid": None, "user": None}
"""What is known of a process besides its PID, where none of the rest may be read."""


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (Reason.NO_PERMISSION, "2 of 3 by their PID alone: /proc shows this user no more of them."),
        (Reason.NO_PROCESS, "2 of 3 by their PID alone: gone, or not in this PID namespace."),
        (Reason.FAILED, "2 of 3 by their PID alone: reading failed, see errors (e)."),
    ],
)
@pytest.mark.parametrize("height", [6, 8, 30])
def test_of_processes_that_cannot_be_read_it_shows_why(why, words, height):
    (one,) = uuids(machine(1))
    dark = [process(n, [one], 9, why=why, **UNREAD) for n in (1, 2)]
    lines = lines_of(machine(1, [*dark, process(3, [one], 1)]), height=height)
    assert len(lines) <= height
    assert lines[-1].strip() == words


def test_one_whose_environment_alone_may_not_be_read_is_listed():
    (one,) = uuids(machine(1))
    lines = lines_of(machine(1, [process(1, [one], 9, why=Reason.NO_PERMISSION)]))
    assert not any("PID alone" in line for line in lines)


def test_without_a_process_it_shows_that():
    assert "No process is on its GPUs." in lines_of(machine(1))


def without_processes(gpu):
    """As an exporter reports it."""
    missing = {**gpu.block.missing, ("process_count", gpu.row): Reason.NOT_SHARED}
    columns = {key: one for key, one in gpu.block.columns.items() if key != "process_count"}
    return gpu._replace(block=gpu.block._replace(columns=columns, missing=missing))


def test_where_processes_are_not_reported_it_does_not_claim_that_there_is_none():
    made = machine(1, process_count=None)
    (uuid,) = uuids(made)
    lines = lines_of(made._replace(gpus={uuid: without_processes(made.gpus[uuid])}))
    assert PROCESSES_NOT_REPORTED in lines
    assert "No process is on its GPUs." not in lines


@pytest.mark.parametrize(
    ("unread", "words"),
    [
        ((), "No process is on its GPUs."),
        ((1,), "Which processes are on GPU 1 is not known; none is on the others."),
        ((0, 2), "Which processes are on GPU 0, 2 is not known; none is on the others."),
        ((0, 1, 2), "Which processes are on its GPUs is not known."),
    ],
)
def test_where_processes_cannot_be_read_it_does_not_claim_that_there_is_none(unread, words):
    made = machine(3)
    hung = (machine(3, process_count=None).gpus[uuids(made)[number]] for number in unread)
    made = made._replace(gpus={**made.gpus, **{one.uuid: one for one in hung}})
    assert words in lines_of(made)


def test_the_past_is_drawn_in_blocks_that_do_not_move():
    history = History()
    for second in range(0, 600, 10):
        values = {**BUSY, "sm_active_ratio": 1.0 if second < 300 else 0.02}
        at = AT - 600 + second
        one = gpu("n1", 0, values)._replace(taken_at=at)
        history.append(tick((), [one], at=at, number=second, history=None))
    reader = history.reader()
    made = machine(1)
    (line,) = [one for one in lines_of(made, history=reader) if one.startswith("GPU ")]
    past = line.split(" °C  ")[1][:PAST_CELLS]
    assert past.strip()[0] == "█"
    assert past.rstrip()[-1] == "▁"
    later = made._replace(at=AT + CELL_S / 3)
    (again,) = [one for one in lines_of(later, history=reader) if one.startswith("GPU ")]
    moved = later.at // CELL_S != AT // CELL_S
    assert (again.split(" °C  ")[1][:PAST_CELLS] == past) is not moved


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({}, "0 of 3 in use"),
        ({71: (1, 0)}, "1 of 3 in use"),
        ({71: (1, 0), 72: (5, 1), 73: (5, 1)}, "2 of 3 in use"),
        ({71: (1, 0), 72: (None, None)}, "3 instances"),
    ],
)
@pytest.mark.parametrize("width", [80, 120])
def test_a_gpu_in_mig_mode_says_how_many_of_its_instances_are_used(places, words, width):
    processes = tuple(on_cut(pid, "ada") for pid in places)
    made = mig_world.picture({"context": mig_world.contexts(places)}, processes)
    whole, cut, other = [line for line in lines_of(made, width=width) if line.startswith("GPU ")]
    assert f"MIG  {words}" in cut
    assert "– %" not in cut
    assert "MIG" not in whole + other
    # What follows stands below what follows on the other lines.
    assert cut.index("MEM ") == whole.index("MEM ")


def test_where_no_process_is_reported_the_instances_are_counted_alone():
    made = mig_world.picture()
    gpus = {uuid: without_processes(one) for uuid, one in made.gpus.items()}
    (cut,) = [line for line in lines_of(made._replace(gpus=gpus)) if line.startswith("GPU 1")]
    assert "MIG  3 instances" in cut


def test_a_stale_gpu_in_mig_mode_claims_nothing_of_its_instances():
    (cut,) = [
        line for line in lines_of(mig_world.picture(is_stale=True)) if line.startswith("GPU 1")
    ]
    assert "MIG" not in cut


def hot(uuid, **changes):
    usual = {
        "detector": "throttled",
        "finding_class": "throttled",
        "summary": "n1 GPU 1 throttled since 14:31: heat",
        "advice": ("Look closer: nvidia-smi.",),
        "machine_advice": ("Check fans.",),
    }
    return finding(f"gpu:{uuid}", **{**usual, **changes})


def with_claims(*claims, place=1, width=120, height=30):
    made = machine(processes=[process(1, uuids(machine()), 5)])
    made = made._replace(findings=claims)
    node = made.nodes["n1"]
    shown = machine_glance(Digest(made), node, width, height, uuid=node.gpu_uuids[place])
    return ["".join(cell.text for cell in line) for line in shown]


def test_the_verdict_of_the_gpu_under_the_cursor_has_what_to_do_beside_it():
    uuid = uuids(machine())[1]
    lines = with_claims(hot(uuid))
    place = next(n for n, line in enumerate(lines) if "throttled since 14:31: heat" in line)
    assert lines[place + 1].strip() == "→ Look closer: nvidia-smi."
    assert lines[place + 2].strip() == "→ Check fans."
    assert not any("throttled" in line for line in with_claims(hot(uuid), place=0))


def test_what_is_wrong_with_the_machine_itself_is_shown_whatever_the_cursor_is_on():
    full = finding("node:n1", summary="n1: /dev/shm is full", advice=("Remove files.",))
    for place in (0, 1):
        lines = with_claims(full, hot(uuids(machine())[1]), place=place)
        assert any("n1: /dev/shm is full" in line for line in lines)
        assert any("→ Remove files." in line for line in lines)
        assert any("throttled" in line for line in lines) is (place == 1)


def test_of_several_verdicts_about_a_gpu_the_gravest_is_shown():
    uuid = uuids(machine())[1]
    lost = hot(uuid, severity=Severity.CRITICAL, summary="n1 GPU 1 fell off the bus")
    lines = with_claims(hot(uuid), lost)
    assert any("fell off the bus" in line for line in lines)
    assert not any("heat" in line for line in lines)


def test_lines_of_gpus_give_way_to_a_verdict_where_both_have_no_room():
    uuid = uuids(machine())[1]
    assert any("GPU 0 " in line for line in with_claims(height=9))
    lines = with_claims(hot(uuid), height=9)
    assert any("heat" in line for line in lines)
    assert not any("GPU 0 " in line for line in lines)


@pytest.mark.parametrize("height", range(1, 30))
def test_verdicts_leave_room_for_processes_and_no_line_is_too_wide(height):
    uuid = uuids(machine())[1]
    long = hot(uuid, summary="n1 GPU 1 " + "word " * 60, machine_advice=("step " * 60,))
    for width in (60, 80, 120):
        lines = with_claims(long, width=width, height=height)
        assert len(lines) <= height
        assert all(len(line) <= width for line in lines if "word" in line or "step" in line)
        if height >= 12:
            assert any("4001" in line for line in lines)


LOOK = "Look closer: nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE -i GPU-" + "0123456789" * 8


def test_how_to_mend_it_is_shown_before_how_to_look_closer_where_both_have_no_room():
    uuid = uuids(machine())[1]
    long = hot(uuid, summary="n1 GPU 1 throttled: " + "heat " * 60, advice=(LOOK,))
    for width in (80, 120):
        text = "\n".join(with_claims(long, width=width))
        assert "→ Check fans." in text
        assert "heat" in text
        assert "Look closer" not in text


def test_at_80x24_what_to_do_is_on_the_screen_before_a_second_line_of_the_host():
    # Eight lines are left below a list of eight GPUs.
    uuid = uuids(machine())[1]
    long = hot(uuid, summary="n1 GPU 1 throttled: " + "heat " * 30, advice=(LOOK,))
    full = finding("node:n1", summary="n1: /dev/shm is full", advice=("Remove files.",))
    lines = with_claims(full, long, width=80, height=8)
    assert len(lines) <= 8
    assert lines[0].startswith("host n1")
    assert any("→ Check fans." in line for line in lines)
    assert any("4001" in line for line in lines)
    assert not any("/dev/shm is full" in line for line in lines)
    lines = with_claims(full, long, width=80, height=8, place=0)
    assert any("→ Remove files." in line for line in lines)


def test_as_little_room_as_there_is_goes_to_the_host_and_the_processes():
    uuid = uuids(machine())[1]
    for height in range(1, 8):
        lines = with_claims(hot(uuid), width=80, height=height)
        assert len(lines) <= height
        assert lines[0].startswith("host n1")
        assert not any("heat" in line for line in lines)


def test_where_not_all_processes_have_room_those_of_the_gpu_under_the_cursor_come_first():
    both = uuids(machine())
    held = [process(n, (both[n % 2],), 50 - n) for n in range(8)]
    made = machine(processes=held)
    node = made.nodes["n1"]

    def pids(uuid, height):
        lines = machine_glance(Digest(made), node, 80, height, uuid=uuid)
        text = ["".join(cell.text for cell in line) for line in lines]
        return [int(line.split()[1]) for line in text if " 400" in line or " 401" in line]

    in_all = pids(None, 30)
    assert len(in_all) == 8
    for uuid in both:
        mine = [one.pid for one in held if uuid in one.mem_used_bytes]
        assert pids(uuid, 7)[0] in mine
        assert pids(uuid, 30) == in_all


def test_the_cursor_has_processes_put_together_again_only_where_not_all_have_room(monkeypatch):
    both, counted, lasting = uuids(machine()), [], {}
    made = machine(processes=[process(n, (both[n % 2],), 50 - n) for n in range(5)])
    block = Block((), {}, {}, {})
    node = made.nodes["n1"]._replace(blocks={"context": block, "process": block})
    put = machine_glance_module._processes
    monkeypatch.setattr(
        machine_glance_module, "_processes", lambda *given: counted.append(1) or put(*given)
    )

    def times(height):
        counted.clear()
        for uuid in (*both, *both):
            machine_glance(Digest(made, lasting), node, 120, height, uuid=uuid)
        return len(counted)

    assert [times(height) for height in (30, 6)] == [1, 4]
