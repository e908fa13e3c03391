"""A job's control group, v1 and v2: CPU, memory, I/O, pressure, processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.kernel import cgroups
from gpumon.probe.kernel.cgroups import EVERY, Cgroups, processes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from gpumon.probe.rows import Row

PATH = "/system.slice/slurmstepd.scope/job_7"
V2 = {
    "cpu.stat": "usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\n",
    "cpuset.cpus.effective": "0-7,16,20-21\n",
    "memory.current": "1000\n",
    "memory.peak": "2000\n",
    "memory.max": "max\n",
    "memory.events": "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\n",
    "io.stat": "8:0 rbytes=100 wbytes=200 rios=1 wios=2\n259:1 rbytes=1 wbytes=2 dbytes=9\n",
    "cpu.pressure": "some avg10=10.00 avg60=1 avg300=1 total=1\nfull avg10=0.00 avg60=0\n",
    "memory.pressure": "some avg10=1.00 avg60=1\nfull avg10=0.50 avg60=1\n",
    "cgroup.procs": "",
    "step_0/user/task_0/cgroup.procs": "10\n11\n",
    "step_0/user/task_1/cgroup.procs": "12\n",
    "step_extern/user/task_special/cgroup.procs": "9\n",
}
V1 = {
    "cpuacct/slurm/uid_1/job_3/cpuacct.usage": "7000999\n",
    "cpuset/slurm/uid_1/job_3/cpuset.effective_cpus": "3\n",
    "memory/slurm/uid_1/job_3/memory.usage_in_bytes": "10\n",
    "memory/slurm/uid_1/job_3/memory.max_usage_in_bytes": "20\n",
    "memory/slurm/uid_1/job_3/memory.limit_in_bytes": "30\n",
    "memory/slurm/uid_1/job_3/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
    "blkio/slurm/uid_1/job_3/blkio.throttle.io_service_bytes": "8:0 Read 5\n8:0 Write 6\n"
    "8:16 Read 50\nTotal 61\n",
    "freezer/slurm/uid_1/job_3/step_0/cgroup.procs": "1\n2\n3\n",
    "unified/cgroup.procs": "",
}


def tree(root: Path, files: dict[str, str], below: str = "") -> Cgroups:
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / below.lstrip("/") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Cgroups(str(root))


def only(reader: Cgroups, job: str, folders: dict[str, str], now: float = 1.0) -> Row:
    (row,) = reader.rows(now, {job: folders})
    return row


def test_a_job_of_cgroup_v2(tmp_path: Path) -> None:
    row = only(tree(tmp_path, V2, PATH), "7", {"": PATH})
    assert row.key == "7"
    assert row.values == {
        "job_cpu_us": 5_000_000,
        "job_cpu_count": 11,
        "job_mem_used_bytes": 1000,
        "job_mem_peak_bytes": 2000,
        "job_oom_kills": 1,
        "job_io_read_bytes": 101,
        "job_io_write_bytes": 202,
        "job_cpu_pressure_some_ratio": 0.1,
        "job_cpu_pressure_full_ratio": 0.0,
        "job_mem_pressure_some_ratio": 0.01,
        "job_mem_pressure_full_ratio": 0.005,
        "job_process_count": 4,
    }
    assert row.missing == {
        "job_mem_limit_bytes": "not_supported",
        "job_output_bytes": "not_supported",
        "job_output_age_s": "not_supported",
        "job_io_pressure_some_ratio": "not_supported",
        "job_io_pressure_full_ratio": "not_supported",
    }


def test_a_job_of_cgroup_v1_beside_an_empty_v2(tmp_path: Path) -> None:
    folder = "/slurm/uid_1/job_3"
    controllers = ("cpuacct", "cpuset", "memory", "blkio", "freezer")
    row = only(tree(tmp_path, V1), "3", {"": "/", **dict.fromkeys(controllers, folder)})
    assert row.values == {
        "job_cpu_us": 7000,
        "job_cpu_count": 1,
        "job_mem_used_bytes": 10,
        "job_mem_peak_bytes": 20,
        "job_mem_limit_bytes": 30,
        "job_oom_kills": 4,
        "job_io_read_bytes": 55,
        "job_io_write_bytes": 6,
        "job_process_count": 3,
    }
    assert row.missing["job_cpu_pressure_some_ratio"] == "not_supported"


def test_no_limit_of_v1_is_no_limit(tmp_path: Path) -> None:
    name = "memory/slurm/uid_1/job_3/memory.limit_in_bytes"
    reader = tree(tmp_path, {**V1, name: "9223372036854771712\n"})
    row = only(reader, "3", {"memory": "/slurm/uid_1/job_3"})
    assert row.missing["job_mem_limit_bytes"] == "not_supported"


def test_a_controller_that_the_job_does_not_have_is_not_supported(tmp_path: Path) -> None:
    row = only(tree(tmp_path, V1), "3", {"freezer": "/slurm/uid_1/job_3"})
    assert row.values == {"job_process_count": 3}
    assert set(row.missing.values()) == {"not_supported"}
    assert set(EVERY) - {"job_process_count"} <= set(row.missing)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = cgroups.files.read

    def refuse(path: str, most: int = 1 << 20) -> str:
        if path.endswith(("memory.current", "memory.pressure")):
            raise PermissionError(13, "Permission denied")
        return read(path, most)

    monkeypatch.setattr(cgroups.files, "read", refuse)
    row = only(tree(tmp_path, V2, PATH), "7", {"": PATH})
    for field in ("job_mem_used_bytes", "job_mem_pressure_some_ratio"):
        assert row.missing[field] == "no_permission"
    assert row.values["job_mem_peak_bytes"] == 2000


def test_a_job_that_has_ended_says_nothing(tmp_path: Path) -> None:
    row = only(tree(tmp_path, {}), "7", {"": PATH})
    assert row.values == {}
    assert set(row.missing.values()) == {"not_supported"}


def test_processes_are_counted_now_and_then(tmp_path: Path) -> None:
    reader = tree(tmp_path, V2, PATH)
    assert only(reader, "7", {"": PATH}, 0.0).values["job_process_count"] == 4
    tree(tmp_path, {"step_1/cgroup.procs": "77\n"}, PATH)
    assert only(reader, "7", {"": PATH}, 4.9).values["job_process_count"] == 4
    assert only(reader, "7", {"": PATH}, 5.0).values["job_process_count"] == 5


def test_a_job_of_many_folders_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "MAX_FOLDERS", 3)
    for number in range(9):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "cgroup.procs").write_text("1\n")
    assert len(processes(str(tmp_path))[0]) == 2


def test_processes_of_a_job_of_many_folders_are_not_counted_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "MAX_FOLDERS", 5)
    reader = tree(tmp_path, V2, PATH)
    row = only(reader, "7", {"": PATH})
    assert "job_process_count" not in row.values
    assert row.missing["job_process_count"] == "not_sampled"
    (error,) = reader.refused
    assert error["where"] == "job 7"
    assert "more than 5 folders" in error["message"]
    monkeypatch.setattr(cgroups, "MAX_FOLDERS", 50)
    assert only(reader, "7", {"": PATH}, 9.0).values["job_process_count"] == 4
    assert reader.refused == []


def test_a_job_of_many_folders_that_has_ended_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "MAX_FOLDERS", 5)
    reader = tree(tmp_path, V2, PATH)
    only(reader, "7", {"": PATH})
    assert reader.rows(2.0, {}) == []
    assert reader.refused == []


def test_jobs_of_one_node_are_bounded(tmp_path: Path) -> None:
    jobs = {str(number): {"": f"/job_{number}"} for number in range(500)}
    assert len(tree(tmp_path, {}).rows(1.0, jobs)) == cgroups.MAX_JOBS


NUMBERS: list[Callable[[str], float]] = [
    read for *_, read in (*cgroups.READERS_V2, *cgroups.READERS_V1)
]


@given(
    st.text(alphabet="0123456789-, \n", max_size=80)
    | st.text(max_size=40)
    | st.lists(
        st.sampled_from(
            ["usage_usec", "8:0", "Read", "rbytes=", "rbytes=5", "wbytes=-1", "7", "\n", "max", "-"]
        ),
        max_size=12,
    ).map(" ".join)
)
def test_any_text_is_a_number_or_refused(text: str) -> None:
    for number in NUMBERS:
        try:
            found = number(text)
        except ValueError:
            continue
        assert found >= 0


def test_digits_that_are_no_numbers_are_no_pids(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("12\n²\n①7\n34\n")
    assert processes(str(tmp_path)) == ([12, 34], True)
