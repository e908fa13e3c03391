"""Who holds a GPU: job, step and task from cgroups, rank variables, and nothing else."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpumon.probe.holders import processes as kernel_processes
from gpumon.probe.holders.processes import Processes, rank_variables
from gpumon.probe.kernel import files
from gpumon.probe.kernel.numa import Numa

if TYPE_CHECKING:
    from gpumon.probe.rows import Row

V2_24 = "0::/system.slice/gpu02_slurmstepd.scope/job_2/step_0/user/task_2\n"
V2_26 = "0::/system.slice/slurmstepd.scope/s8FXKTA79XAR00/step_0/user/task_2\n"
STAT = "{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {ticks} 9 9"
IO = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\n"


def process(
    root: Path,
    pid: int = 77,
    name: str = "python",
    ticks: int = 12345,
    cgroup: str = V2_24,
    environ: bytes = b"",
    parent: int = 1,
    status: str = "",
) -> Path:
    folder = root / str(pid)
    folder.mkdir(parents=True)
    stat = STAT.format(pid=pid, name=name, ticks=ticks, parent=parent)
    (folder / "stat").write_bytes(stat.encode())
    (folder / "status").write_text(status)
    (folder / "comm").write_bytes(name.encode() + b"\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_bytes(environ)
    (folder / "io").write_text(IO)
    return folder


def only(root: Path, pid: int = 77) -> Row:
    (row,) = Processes(str(root)).rows([pid], 5.0)
    return row


def test_job_step_and_task_are_labels(tmp_path: Path) -> None:
    process(tmp_path)
    labels = only(tmp_path).labels
    assert (labels["job_id"], labels["step"], labels["task"]) == ("2", "0", "2")
    assert "sluid" not in labels


@pytest.mark.parametrize(
    ("environ", "job_id"),
    [
        pytest.param(b"SLURM_JOB_ID=26\0SLURM_STEP_ID=0\0", "26", id="readable"),
        pytest.param(b"SLURM_JOB_ID=rm -rf\0", None, id="no-number"),
        pytest.param(b"", None, id="silent"),
    ],
)
def test_a_job_that_slurm_names_by_its_sluid_is_found_by_the_environment(
    environ: bytes, job_id: str | None, tmp_path: Path
) -> None:
    process(tmp_path, cgroup=V2_26, environ=environ)
    known = Processes(str(tmp_path))
    (row,) = known.rows([77], 1.0)
    assert row.labels["sluid"] == "s8FXKTA79XAR00"
    assert row.labels["step"] == "0"
    assert row.labels.get("job_id") == job_id
    folder = "/system.slice/slurmstepd.scope/s8FXKTA79XAR00"
    assert known.jobs() == {job_id or "s8FXKTA79XAR00": {"": folder}}


def test_only_rank_variables_leave_the_node(tmp_path: Path) -> None:
    environ = (
        b"AWS_SECRET_ACCESS_KEY=hunter2\0SLURM_JOB_ID=6\0HF_TOKEN=hunter2\0RANK=3\0"
        b"XRANK=hunter2\0RANK_SECRET=hunter2\0SLURM_JOB_NAME=hunter2\0rank=hunter2\0"
        b"MASTER_ADDR=gpu01\0noise\0=hunter2\0MASTER_PORT\0WORLD_SIZE=a=b\0"
    )
    process(tmp_path, environ=environ)
    row = only(tmp_path)
    assert json.loads(row.labels["rank_vars"]) == {
        "SLURM_JOB_ID": "6",
        "RANK": "3",
        "MASTER_ADDR": "gpu01",
        "MASTER_PORT": "",
        "WORLD_SIZE": "a=b",
    }
    assert "hunter2" not in json.dumps([row.labels, row.values, row.missing])


def test_rank_variables_are_cut_and_decoded() -> None:
    found = rank_variables(b"MASTER_ADDR=" + b"x" * 100_000 + b"\0ROLE_NAME=\xff\0\xff\xfe=1")
    assert found == {"MASTER_ADDR": "x" * 256, "ROLE_NAME": "\ufffd"}


@pytest.mark.parametrize(
    "name", ["my prog", "a) S 1 (b", "(sd-pam)", "\x1b[31mred", "x\ny", "", "tr\u00e4iner"]
)
def test_any_program_name_leaves_the_other_fields_readable(name: str, tmp_path: Path) -> None:
    process(tmp_path, name=name, ticks=700)
    row = only(tmp_path)
    assert row.values["start_time_s"] == 700 / os.sysconf("SC_CLK_TCK")
    assert row.labels["name"] == name.strip()


def test_the_owner_is_the_folder_s(tmp_path: Path) -> None:
    folder = process(tmp_path)
    if os.geteuid() == 0:
        os.chown(folder, 7001, 7001)
    assert only(tmp_path).values["uid"] == folder.stat().st_uid


def test_a_process_that_is_gone_says_so(tmp_path: Path) -> None:
    row = only(tmp_path)
    assert row.values == {}
    assert row.labels == {}
    assert set(row.missing.values()) == {"no_process"}
    assert {"name", "uid", "job_id", "rank_vars", "start_time_s"} <= set(row.missing)


def test_a_process_that_goes_while_it_is_read_says_so(tmp_path: Path) -> None:
    folder = process(tmp_path)
    (folder / "environ").unlink()
    row = only(tmp_path)
    untold = (
        "inner_pid",
        "process_cpu_wait_us",
        "cpus_allowed",
        "cpus_allowed_count",
        "cpu_numa_nodes",
    )
    assert row.missing == {"rank_vars": "no_process", **dict.fromkeys(untold, "not_supported")}
    assert row.values["process_cpu_us"] > 0
    assert row.labels["name"] == "python"


def test_what_a_process_uses_is_read_twice_and_then_as_often_as_the_driver_lists_it(
    tmp_path: Path,
) -> None:
    """Twice, so that a user who watches for a second sees a rate; later ones likewise."""
    process(tmp_path)
    known = Processes(str(tmp_path))
    seen = []
    for now in (5.0, 6.0, 7.0, 9.0, 9.5, 10.5, 14.4):
        if now == 7.0:
            process(tmp_path, 78)
        rows = known.rows([77, 78] if now >= 7.0 else [77], now)
        seen.append(([row.at for row in rows], known.is_new))
    assert seen == [
        ([5.0], True),
        ([6.0], True),
        ([6.0, 7.0], True),
        ([6.0, 9.0], True),
        ([9.5, 9.5], True),
        ([9.5, 9.5], False),
        ([14.4, 14.4], True),
    ]
    assert known.rows([78], 15.0) == rows[1:]
    assert known.is_new


def test_what_a_process_uses_is_read_anew(tmp_path: Path) -> None:
    folder = process(tmp_path)
    known = Processes(str(tmp_path))
    (first,) = known.rows([77], 5.0)
    stat = (folder / "stat").read_text()
    (folder / "stat").write_text(stat.replace(" 5 6 7 8 20 ", " 305 206 7 8 20 ").rstrip("9") + "7")
    (folder / "io").write_text(IO.replace("4096", "12288"))
    (second,) = known.rows([77], 6.0)
    tick_us, page = 1_000_000 // os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert first.values["process_cpu_us"] == (5 + 6) * tick_us
    assert first.values["process_rss_bytes"] == 9 * page
    assert first.values["process_io_read_bytes"] == 4096
    assert first.values["process_io_write_bytes"] == 8192
    assert second.values["process_cpu_us"] == (305 + 206) * tick_us
    assert second.values["process_rss_bytes"] == 7 * page
    assert second.values["process_io_read_bytes"] == 12288
    assert (first.at, second.at) == (5.0, 6.0)
    assert second.labels == first.labels


@pytest.mark.parametrize(
    ("text", "waited_us"),
    [("1 2500999 3\n", 2500), ("0 0 1", 0), ("", None), ("1", None), ("1 x 3", None)],
)
def test_how_long_a_process_has_waited_for_a_cpu(
    text: str, waited_us: int | None, tmp_path: Path
) -> None:
    (process(tmp_path) / "schedstat").write_text(text)
    row = only(tmp_path)
    assert row.values.get("process_cpu_wait_us") == waited_us
    assert ("process_cpu_wait_us" in row.missing) is (waited_us is None)


@pytest.mark.parametrize(
    ("letter", "key", "other"),
    [
        ("T", "process_stopped_s", "process_stuck_s"),
        ("t", "process_stopped_s", "process_stuck_s"),
        ("D", "process_stuck_s", "process_stopped_s"),
    ],
)
def test_for_how_long_a_process_has_been_stopped_or_stuck(
    letter: str, key: str, other: str, tmp_path: Path
) -> None:
    """It counts from the first reading that found it so; one that did not begins again."""
    folder = process(tmp_path)
    runs = (folder / "stat").read_text()
    halts = runs.replace(" S ", f" {letter} ")
    known = Processes(str(tmp_path))
    found = []
    for now, text in ((5.0, runs), (7.0, halts), (12.5, halts), (18.0, runs), (25.0, halts)):
        (folder / "stat").write_text(text)
        (row,) = known.rows([77], now)
        assert row.values[other] == 0
        found.append((row.labels["state"], row.values[key]))
    assert found == [("S", 0), (letter, 0), (letter, 5.5), ("S", 0), (letter, 0)]


@pytest.mark.parametrize("word", ["", "SS", "1", "\u00e9"])
def test_a_state_that_is_none_is_missing(word: str, tmp_path: Path) -> None:
    folder = process(tmp_path)
    (folder / "stat").write_text((folder / "stat").read_text().replace(" S ", f" {word or '?'} "))
    row = only(tmp_path)
    assert "state" not in row.labels
    assert {row.missing[key] for key in ("state", "process_stopped_s", "process_stuck_s")} == {
        "not_supported"
    }


def test_the_cpus_of_a_process_are_read_again_now_and_then(tmp_path: Path) -> None:
    """A program may bind itself once it runs; what it could use before is not reported any more."""
    folder = process(tmp_path, status="Cpus_allowed_list:\t0-7\n")
    known = Processes(str(tmp_path), numa=Numa(str(tmp_path)))
    found = []
    for now, status in ((5.0, "0-7"), (30.0, "3"), (36.0, "3"), (70.0, "")):
        (folder / "status").write_text(f"Cpus_allowed_list:\t{status}\n" if status else "")
        (row,) = known.rows([77], now)
        found.append((row.labels.get("cpus_allowed"), row.values.get("cpus_allowed_count")))
    assert found == [("0-7", 8), ("0-7", 8), ("3", 1), (None, None)]
    assert row.missing["cpus_allowed"] == row.missing["cpus_allowed_count"] == "not_supported"


@pytest.mark.parametrize("text", ["", "read_bytes:", "read_bytes: -4\n", "read_bytes: x\n", "\0"])
def test_a_strange_io_file_loses_only_its_own_values(text: str, tmp_path: Path) -> None:
    (process(tmp_path) / "io").write_text(text)
    row = only(tmp_path)
    assert row.missing["process_io_read_bytes"] == "not_supported"
    assert row.missing["process_io_write_bytes"] == "not_supported"
    assert row.values["process_rss_bytes"] > 0


@pytest.mark.parametrize(
    ("text", "pages"), [("90 31 5 1 0 9 0\n", 31), ("", 9), ("90", 9), ("90 x 5", 9), ("9 -4 5", 9)]
)
def test_resident_memory_is_statm_s_and_where_that_is_strange_stat_s(
    text: str, pages: int, tmp_path: Path
) -> None:
    (process(tmp_path) / "statm").write_text(text)
    assert only(tmp_path).values["process_rss_bytes"] == pages * os.sysconf("SC_PAGE_SIZE")


def test_a_short_stat_file_loses_only_what_is_not_there(tmp_path: Path) -> None:
    folder = process(tmp_path)
    stat = (folder / "stat").read_text()
    (folder / "stat").write_text(stat.rpartition(" ")[0])
    row = only(tmp_path)
    assert row.values["start_time_s"] == 12345 / os.sysconf("SC_CLK_TCK")
    assert row.missing["process_rss_bytes"] == row.missing["process_cpu_us"] == "not_supported"


def as_other_user(root: Path, pids: list[int]) -> list[tuple[dict[str, str], dict[str, str]]]:
    """What an ordinary user reads, in a child that has given root up."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresuid(65534, 65534, 65534)
            rows = Processes(str(root)).rows(pids, 1.0)
            os.write(into, json.dumps([[row.labels, row.missing] for row in rows]).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(text)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@needs_root
def test_another_user_s_environment_is_not_permitted() -> None:
    """On the real /proc: this process belongs to root, the reader does not."""
    ((labels, missing),) = as_other_user(Path("/proc"), [os.getpid()])
    assert missing["rank_vars"] == "no_permission"
    assert missing["process_io_read_bytes"] == "no_permission"
    assert "process_cpu_us" not in missing
    assert labels["name"]


@needs_root
def test_a_proc_that_hides_others_is_no_permission_and_not_gone() -> None:
    """With hidepid=1 the folder of another user's process is there and nothing in it opens."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        for file in process(Path(root)).iterdir():
            file.chmod(0o600)
        ((labels, missing),) = as_other_user(Path(root), [77])
    assert labels == {}
    assert set(missing.values()) == {"no_permission"}


def test_a_process_is_read_once_and_a_reused_pid_again(tmp_path: Path) -> None:
    folder = process(tmp_path, name="first", ticks=100)
    known = Processes(str(tmp_path))
    known.rows([77], 1.0)
    (folder / "comm").write_text("changed\n")
    (row,) = known.rows([77, 77], 2.0)
    assert (row.labels["name"], row.at) == ("first", 2.0)
    (folder / "stat").write_text(STAT.format(pid=77, name="second", ticks=200, parent=1))
    (folder / "comm").write_text("second\n")
    assert known.rows([77], 6.0)[0].labels["name"] == "second"
    assert known.rows([], 11.0) == []
    (folder / "comm").write_text("third\n")
    assert known.rows([77], 16.0)[0].labels["name"] == "third"


def test_mounts_are_read_once_for_all_that_share_them(tmp_path: Path) -> None:
    """They are the longest file of a process, and most share them."""
    for pid, namespace in ((77, "a"), (78, "a"), (79, "b")):
        folder = process(tmp_path, pid, cgroup="0::/\n")
        (folder / "ns").mkdir()
        (folder / "ns/mnt").symlink_to(f"mnt:[{namespace}]")
    reads = []
    with mock.patch.object(files, "read_or_empty", lambda path, _most=0: reads.append(path) or ""):
        Processes(str(tmp_path)).rows([77, 78, 79], 5.0)
    assert [path for path in reads if "mountinfo" in path] == [
        f"{tmp_path}/77/mountinfo",
        f"{tmp_path}/79/mountinfo",
    ]


def test_the_parent_is_told(tmp_path: Path) -> None:
    process(tmp_path, parent=4711)
    assert only(tmp_path).values["parent_pid"] == 4711


@pytest.mark.parametrize(
    ("line", "inner"),
    [("NSpid:\t77\t7", 7), ("NSpid:\t77\t9\t3", 3), ("NSpid:\t77", None), ("NSpid:", None)],
)
def test_the_pid_that_a_container_knows(line: str, inner: int | None, tmp_path: Path) -> None:
    process(tmp_path, status=f"Name:\tpython\nPid:\t77\n{line}\n")
    row = only(tmp_path)
    assert row.values.get("inner_pid") == inner
    assert row.missing.get("inner_pid") == (None if inner else "not_supported")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("rw,hidepid=2", "no_permission"),
        ("rw,hidepid=invisible,gid=9", "no_permission"),
        ("rw,hidepid=ptraceable", "no_permission"),
        ("rw,hidepid=1", "no_process"),
        ("rw,relatime", "no_process"),
    ],
)
def test_a_proc_that_shows_no_folder_is_no_permission_and_not_gone(
    options: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "mounts").write_text(f"sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n")
    row = only(tmp_path)
    assert set(row.missing.values()) == {why}
    assert "rank_vars" in row.missing


def inside(tmp_path: Path, namespace: str) -> Processes:
    """A /proc of a container, and the driver's device files."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").write_text("")
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to(namespace)
    return Processes(str(tmp_path), str(tmp_path / "dev"))


@pytest.mark.parametrize(
    ("namespace", "open_file", "is_taken"),
    [
        pytest.param("pid:[4026532001]", "/dev/nvidia0", True, id="inside-on-gpu"),
        pytest.param("pid:[4026532001]", "/dev/null", False, id="inside-another"),
        pytest.param("pid:[4026531836]", "/dev/null", True, id="host"),
    ],
)
def test_a_host_s_pid_is_not_taken_for_a_container_s(
    namespace: str, open_file: str, is_taken: bool, tmp_path: Path
) -> None:
    """The driver gives the host's PIDs, and in a container these are other processes."""
    folder = process(tmp_path, name="innocent")
    (folder / "fd").mkdir()
    (folder / "fd" / "3").symlink_to(open_file)
    (row,) = inside(tmp_path, namespace).rows([77], 1.0)
    assert (row.labels.get("name") == "innocent") is is_taken
    assert is_taken or set(row.missing.values()) == {"no_process"}


def test_in_a_container_a_process_whose_files_are_hidden_is_not_taken_for_the_driver_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be any other process of that number."""
    process(tmp_path, name="innocent")

    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", refuse)
    (row,) = inside(tmp_path, "pid:[4026532001]").rows([77], 1.0)
    assert "name" not in row.labels
    assert set(row.missing.values()) == {"no_permission"}


def test_a_file_that_closes_meanwhile_leaves_the_others_to_be_seen(tmp_path: Path) -> None:
    folder = process(tmp_path, name="trainer") / "fd"
    folder.mkdir()
    (folder / "2").write_text("no link")
    (folder / "3").symlink_to("/dev/nvidia0")
    (row,) = inside(tmp_path, "pid:[4026532001]").rows([77], 1.0)
    assert row.labels["name"] == "trainer"


def test_jobs_have_their_folder_under_every_controller(tmp_path: Path) -> None:
    process(tmp_path, 77, cgroup="4:freezer:/slurm/uid_1/job_3/step_0\n3:cpu,cpuacct:/\n")
    process(tmp_path, 78, cgroup="4:memory,cpu:/slurm/uid_1/job_3/step_0/task_0\n")
    process(tmp_path, 79, cgroup="0::/user.slice\n")
    known = Processes(str(tmp_path))
    known.rows([77, 78, 79], 1.0)
    folder = "/slurm/uid_1/job_3"
    assert known.jobs() == {"3": {"freezer": folder, "memory": folder, "cpu": folder}}


STRANGE = st.binary(max_size=60) | st.lists(
    st.sampled_from(["77", "(a", ")", "S", "NSpid:", "²", "9" * 400, "-1", "\n", "\0", "RANK=1"]),
    max_size=40,
).map(lambda words: " ".join(words).encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stat=STRANGE, status=STRANGE, cgroup=STRANGE, environ=STRANGE)
def test_no_process_is_too_strange(
    tmp_path: Path, stat: bytes, status: bytes, cgroup: bytes, environ: bytes
) -> None:
    folder = tmp_path / "77"
    folder.mkdir(exist_ok=True)
    files = {"stat": stat, "status": status, "cgroup": cgroup, "environ": environ}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    row = only(tmp_path)
    assert set(row.missing.values()) <= {"no_process", "not_supported"}
    json.dumps(row.labels)
    json.dumps(row.values, allow_nan=False)


def test_more_processes_than_are_described_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_processes, "MAX_PROCESSES", 3)
    for pid in range(71, 76):
        process(tmp_path, pid)
    reader = Processes(str(tmp_path))
    assert [row.key for row in reader.rows([75, 71, 72, 71, 73, 74], 5.0)] == ["71", "72", "73"]
    (seen,) = reader.refused
    assert seen["message"] == "5 processes hold GPUs of this node: 3 are read, 2 are not"
    assert seen["hint"]
    reader.rows([71, 72, 73], 6.0)
    assert reader.refused == []
