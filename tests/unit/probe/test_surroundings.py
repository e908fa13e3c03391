"""The thread that reads the node: whole readings, hung ones, and strange machines."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.probe import surroundings
from gpumon.probe.kernel import filesystems
from gpumon.probe.kernel.cgroups import Cgroups
from gpumon.probe.rows import Row
from gpumon.probe.surroundings import (
    NAMES,
    PATIENCE_S,
    PERIOD_S,
    JobFolders,
    Reader,
    Surroundings,
    Wanted,
)
from tests.worlds.proc import stat_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SLUID = "s0123456789ABC"


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hung read waits for; opened at the end, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


def gpu(uuid: str, bus_id: str) -> Row:
    row = Row(uuid, 0.0)
    row.labels["pci_bus_id"] = bus_id
    return row


def test_a_reading_has_every_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "PATIENCE_S", 60.0)
    around = Surroundings(str(tmp_path), Time().monotonic)
    around.start()
    around.ask([gpu("GPU-a", "00000000:05:00.0")], [77])
    around.wait()
    extra = Row("", 0.0)
    extra.labels["driver_version"] = "580.1"
    extra.values["probe_calls"] = 7
    blocks, events, errors = around.take(extra)
    assert set(blocks) == set(NAMES)
    assert blocks["process"]["keys"] == ["77"]
    assert blocks["process"]["missing"]["name"] == "no_process"
    assert blocks["node"]["labels"]["driver_version"] == ["580.1"]
    assert blocks["node"]["missing"]["kernel_log"] == "not_supported"
    assert (blocks["nic"]["keys"], blocks["cgroup"]["keys"]) == ([], [])
    assert (events, errors) == ([], [])


def test_processes_are_told_when_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of a report would be processes, where many are."""
    monkeypatch.setattr(surroundings, "PATIENCE_S", 60.0)
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/stat").write_text(stat_line(77, "python"))
    # A name that a directory finds comes when it comes, and is reported with its process.
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"ada:x:{os.getuid()}:0::/:/bin/sh\n")
    time = Time()
    around = Surroundings(str(tmp_path), time.monotonic)
    around.start()
    has_processes = []
    for time.now in (1000.0, 1001.0, 1002.0, 1003.0, 1005.0, 1006.0):
        around.ask([], [77])
        around.wait()
        blocks, _, _ = around.take(Row("", 0.0))
        has_processes.append(blocks.keys() - set(NAMES) or "process" in blocks)
    assert has_processes == [True, True, False, False, True, False]


def test_what_has_ended_since_it_was_listed_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "PATIENCE_S", 60.0)
    for pid in (77, 78):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/stat").write_text(stat_line(pid, "python"))
    contexts = [(pid, Row(f"{pid}/GPU-a", 0.0)) for pid in (77, 78)]
    time = Time()
    around = Surroundings(str(tmp_path), time.monotonic)
    around.start()

    def held(is_new: bool) -> list[str] | None:
        time.now += 1.0
        around.ask([], [77, 78])
        around.wait()
        rows = around.still_held(contexts, is_new)
        return None if rows is None else [row.key for row in rows]

    assert held(is_new=True) == ["77/GPU-a", "78/GPU-a"]
    (tmp_path / "proc/77/stat").unlink()
    assert held(is_new=False) == ["78/GPU-a"]
    assert held(is_new=False) is None
    assert held(is_new=True) == ["78/GPU-a"]


class Names:
    """A directory of users that answers when a test lets it."""

    def __init__(self, _path: str) -> None:
        self.answers = 0

    def ask(self, _rows: list[Row]) -> None:
        return

    def wait(self, _patience_s: float) -> None:
        return

    def add_to(self, rows: list[Row]) -> None:
        for row in rows:
            row.labels["user"] = f"name {self.answers}"


def test_a_name_that_comes_late_is_told_in_new_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names("")
    monkeypatch.setattr(surroundings, "Users", lambda _path: names)
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/stat").write_text(stat_line(77, "python"))
    time = Time()
    reader = Reader(str(tmp_path), time.monotonic, ("hot", "medium", "slow"))

    def read() -> list[Row]:
        time.now += 1.0
        return reader.read(Wanted({}, [77]), lambda what: None)[0]["process"]

    read()
    before = read()
    assert read() is before
    names.answers = 1
    after = read()
    assert [rows[0].labels["user"] for rows in (before, after)] == ["name 0", "name 1"]
    assert after[0].values == before[0].values


def test_gpus_are_told_their_numa_node_or_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "PATIENCE_S", 60.0)
    for bus_id, text in (("0000:05:00.0", "3\n"), ("0000:06:00.0", "-1\n")):
        folder = tmp_path / "sys/bus/pci/devices" / bus_id
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(text)
    gpus = [gpu("GPU-a", "00000000:05:00.0"), gpu("GPU-b", "00000000:06:00.0"), gpu("GPU-c", "")]
    around = Surroundings(str(tmp_path), Time().monotonic)
    around.add_to(gpus)
    assert {one.missing["gpu_numa_node"] for one in gpus} == {"not_sampled"}
    around.start()
    around.ask(gpus, [])
    around.wait()
    around.add_to(gpus)
    assert gpus[0].values["gpu_numa_node"] == 3
    assert "gpu_numa_node" not in gpus[0].missing
    assert [one.missing["gpu_numa_node"] for one in gpus[1:]] == ["not_supported"] * 2


def test_tiers_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    for name in ("proc/1/stat", "proc/self/mountstats"):
        (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text(stat_line(1, "init", state="D"))
    (tmp_path / "proc/self/mountstats").write_text("device f:/h mounted on /h with fstype nfs\n")
    time = Time()
    for wanted, mounts, hanging in ((("hot", "medium", "slow"), 1, 1), (("hot",), 0, None)):
        reader = Reader(str(tmp_path), time.monotonic, wanted)
        for _ in range(2):
            rows, _ = reader.read(Wanted({}, []), lambda what: None)
        assert len(rows["filesystem"]) == mounts
        (node,) = rows["node"]
        assert node.values.get("d_state_process_count") == hanging
        assert hanging or node.missing["d_state_process_count"] == "not_sampled"


def test_before_the_first_reading_the_node_has_a_name(tmp_path: Path) -> None:
    blocks, _, _ = Surroundings(str(tmp_path)).take(Row("", 0.0))
    assert len(blocks["node"]["keys"]) == 1
    assert blocks["node"]["keys"][0]


Read = tuple[dict[str, list[Row]], list[Any]]


def replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, time: Time, read: Callable[[], Read]
) -> Surroundings:
    """Surroundings whose reader does something else, after it has noted what it reads."""

    def read_instead(_: Reader, wanted: Wanted, note: Callable[[str], None]) -> Read:
        note("network ports")
        return read()

    monkeypatch.setattr(surroundings.Reader, "read", read_instead)
    around = Surroundings(str(tmp_path), time.monotonic)
    around.start()
    return around


def test_a_read_that_never_returns_is_named_and_the_last_values_stay(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    gate: threading.Event,
    said: Callable[..., None],
) -> None:
    time, begun = Time(), threading.Event()

    def hang() -> Read:
        begun.set()
        gate.wait()
        return {name: [] for name in NAMES}, []

    around = replaced(monkeypatch, tmp_path, time, hang)
    around.ask([], [])
    assert begun.wait(60)
    assert around.take(Row("", 0.0))[2] == []
    time.now += PATIENCE_S + 6
    around.wait()
    blocks, _, errors = around.take(Row("", 0.0))
    assert blocks["node"]["keys"]
    assert [error["message"] for error in errors] == [
        "reading network ports has not returned for 7 s"
    ]
    said(errors[0]["message"], errors[0]["hint"])
    around.ask([], [1])
    around.wait()


def test_a_file_that_is_too_strange_ends_neither_thread_nor_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers: list[Read | Exception] = [
        ValueError("x"),
        ({**{name: [] for name in NAMES}, "node": [Row("n", 1.0)]}, []),
    ]

    def read() -> Read:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(surroundings, "PATIENCE_S", 60.0)
    around = replaced(monkeypatch, tmp_path, Time(), read)
    around.ask([], [])
    around.wait()
    blocks, _, errors = around.take(Row("", 0.0))
    assert blocks["node"]["keys"]
    assert "reading network ports failed: ValueError('x')" in errors[0]["message"]
    around.ask([], [])
    around.wait()
    blocks, _, errors = around.take(Row("", 0.0))
    assert (blocks["node"]["keys"], errors) == (["n"], [])


def make(root: Path, *folders: str) -> None:
    for folder in folders:
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True)


@pytest.mark.parametrize("scope", ["slurmstepd.scope", "gpu01_slurmstepd.scope"])
def test_jobs_of_cgroup_v2(tmp_path: Path, scope: str) -> None:
    make(tmp_path, *(f"system.slice/{scope}/{name}" for name in ("job_7", SLUID, "system")))
    top = f"/system.slice/{scope}"
    found = JobFolders(str(tmp_path)).beside(0.0, {}, 10)
    assert found == {"7": {"": f"{top}/job_7"}, SLUID: {"": f"{top}/{SLUID}"}}


@pytest.mark.parametrize("top", ["slurm", "slurm_gpu01"])
def test_a_job_of_cgroup_v1_is_read_like_one_of_a_process(tmp_path: Path, top: str) -> None:
    path = f"/{top}/uid_1000/job_3"
    make(tmp_path, f"cpuacct{path}", f"freezer{path}/step_0", "memory/user.slice", "unified")
    (tmp_path / f"sys/fs/cgroup/cpuacct{path}/cpuacct.usage").write_text("5000000\n")
    found = JobFolders(str(tmp_path)).beside(0.0, {}, 10)
    assert found == {"3": {"cpuacct": path, "freezer": path}}
    (row,) = Cgroups(str(tmp_path)).rows(0.0, found)
    assert row.values["job_cpu_us"] == 5000


def test_jobs_with_processes_on_gpus_come_first_and_keep_what_is_known(tmp_path: Path) -> None:
    top = "system.slice/slurmstepd.scope"
    make(tmp_path, *(f"{top}/job_{number}" for number in range(1, 9)))
    known = {"8": {"": "/from/its/process"}}
    found = JobFolders(str(tmp_path)).beside(0.0, known, 3)
    assert list(found) == ["8", "1", "2"]
    assert found["8"] == {"": "/from/its/process"}
    assert known == {"8": {"": "/from/its/process"}}


def test_they_are_looked_for_now_and_then(tmp_path: Path) -> None:
    folders = JobFolders(str(tmp_path))
    assert folders.beside(0.0, {}, 10) == {}
    make(tmp_path, "system.slice/slurmstepd.scope/job_7")
    assert folders.beside(PERIOD_S - 1, {}, 10) == {}
    assert list(folders.beside(PERIOD_S, {}, 10)) == ["7"]
    (tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7").rmdir()
    assert folders.beside(2 * PERIOD_S, {}, 10) == {}


def test_jobs_without_room_are_counted(tmp_path: Path) -> None:
    make(tmp_path, *(f"system.slice/slurmstepd.scope/job_{number}" for number in range(1, 9)))
    folders = JobFolders(str(tmp_path))
    known = {"3": {"": "/a"}, "77": {"": "/b"}}
    assert len(folders.beside(0.0, known, 5)) == 5
    (error,) = folders.refused
    assert error["message"] == "9 jobs on this node: 5 are read, 4 are not"
    assert error["hint"]
    assert len(folders.beside(0.0, known, 9)) == 9
    assert folders.refused == []


def test_a_folder_is_found_among_any_number_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "MAX_ENTRIES", 2)
    make(tmp_path, *(f"system.slice/unit{number}.service" for number in range(40)))
    make(tmp_path, "system.slice/slurmstepd.scope/job_7")
    assert list(JobFolders(str(tmp_path)).beside(0.0, {}, 10)) == ["7"]


def test_what_a_reading_leaves_out_is_told_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "PATIENCE_S", 60.0)
    monkeypatch.setattr(filesystems, "MAX_MOUNTS", 1)
    lines = "".join(f"device f:/{n} mounted on /{n} with fstype nfs\n" for n in range(3))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountstats").write_text(lines)
    around = Surroundings(str(tmp_path), Time().monotonic)
    around.start()
    around.ask([], [])
    around.wait()
    blocks, _, errors = around.take(Row("", 0.0))
    assert len(blocks["filesystem"]["keys"]) == 1
    assert [error["message"] for error in errors] == ["3 network mounts: 1 are read, 2 are not"]


def test_processes_are_told_the_names_of_their_owners(tmp_path: Path) -> None:
    stat = "77 (python) S 1 " + "0 " * 17 + "4200 0 0 0\n"
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/stat").write_text(stat)
    (tmp_path / "etc").mkdir()
    uid = tmp_path.stat().st_uid
    (tmp_path / "etc/passwd").write_text(f"hedwig:x:{uid}:9::/:/bin/sh\n")
    reader = Reader(str(tmp_path), Time().monotonic, [])
    rows, _ = reader.read(Wanted({}, [77, 78]), lambda _what: None)
    here, gone = rows["process"]
    assert (here.values["uid"], here.labels["user"]) == (uid, "hedwig")
    assert gone.missing["user"] == "no_process"


def test_a_directory_that_hangs_delays_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    (tmp_path / "proc/77").mkdir(parents=True)
    stat = "77 (python) S 1 " + "0 " * 17 + "4200 0 0 0\n"
    (tmp_path / "proc/77/stat").write_text(stat)
    reader = Reader(str(tmp_path), Time().monotonic, [])
    monkeypatch.setattr(reader._users, "_look_up", lambda _uid: gate.wait() and None)
    for _ in range(3):
        rows, _ = reader.read(Wanted({}, [77]), lambda _what: None)
        (row,) = rows["process"]
        assert row.missing["user"] == "not_sampled"
        assert row.values["uid"] == tmp_path.stat().st_uid
