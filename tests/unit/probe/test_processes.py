"""Who holds a GPU: job, step and task from cgroups, rank variables, and nothing else."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpumon.probe.processes import Processes, job_step_task, rank_variables

if TYPE_CHECKING:
    from gpumon.probe.rows import Row

V1_22 = """\
12:pids:/gmlab/gpu03
11:devices:/slurm_gpu03/uid_7001/job_3/step_0/task_1
7:freezer:/slurm_gpu03/uid_7001/job_3/step_0
1:name=systemd:/init.scope
"""
V1_22_FREEZER_FIRST = """\
11:freezer:/slurm/uid_7001/job_3/step_0
10:memory:/
7:devices:/slurm/uid_7001/job_3/step_0/task_1
"""
V1_FREEZER_ONLY = "4:freezer:/slurm/uid_7001/job_3/step_batch\n3:cpu,cpuacct:/\n"
V1_24 = "9:devices:/slurm_gpu03/uid_7001/job_3/step_0/task_9\n"
V2_24 = "0::/system.slice/gpu02_slurmstepd.scope/job_2/step_0/user/task_2\n"
V2_PLAIN = "0::/system.slice/slurmstepd.scope/job_26/step_extern/user/task_special\n"
V2_SYSTEM = "0::/system.slice/slurmstepd.scope/system\n"
STAT = "{pid} ({name}) S 1 {pid} {pid} 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {ticks} 9 9"


def process(
    root: Path,
    pid: int = 77,
    name: str = "python",
    ticks: int = 12345,
    cgroup: str = V2_24,
    environ: bytes = b"",
) -> Path:
    folder = root / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_bytes(STAT.format(pid=pid, name=name, ticks=ticks).encode())
    (folder / "comm").write_bytes(name.encode() + b"\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_bytes(environ)
    return folder


def only(root: Path, pid: int = 77) -> Row:
    (row,) = Processes(str(root)).rows([pid], 5.0)
    return row


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        pytest.param(V1_22, ("3", "0", "1"), id="v1-22.05"),
        pytest.param(V1_22_FREEZER_FIRST, ("3", "0", "1"), id="v1-freezer-first"),
        pytest.param(V1_FREEZER_ONLY, ("3", "batch", None), id="v1-freezer-only"),
        pytest.param(V1_24, ("3", "0", "9"), id="v1-24.11"),
        pytest.param(V2_24, ("2", "0", "2"), id="v2-24.11"),
        pytest.param(V2_PLAIN, ("26", "extern", None), id="v2-extern"),
        pytest.param(V2_SYSTEM, (None, None, None), id="v2-system-is-no-job"),
        pytest.param("0::/user.slice/user-7001.slice/session-1.scope\n", (None,) * 3, id="login"),
        pytest.param("", (None, None, None), id="empty"),
    ],
)
def test_job_step_and_task_of_a_cgroup(
    cgroup: str, expected: tuple[str | None, ...], tmp_path: Path
) -> None:
    assert job_step_task(cgroup) == expected
    process(tmp_path, cgroup=cgroup)
    labels = only(tmp_path).labels
    assert (labels.get("job_id"), labels.get("step"), labels.get("task")) == expected


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
    assert row.missing == {"rank_vars": "no_process"}
    assert row.labels["name"] == "python"


def as_nobody(root: Path, pids: list[int]) -> list[tuple[dict[str, str], dict[str, str]]]:
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
    ((labels, missing),) = as_nobody(Path("/proc"), [os.getpid()])
    assert missing == {"rank_vars": "no_permission"}
    assert labels["name"]


@needs_root
def test_a_proc_that_hides_others_is_no_permission_and_not_gone() -> None:
    """With hidepid=1 the folder of another user's process is there and nothing in it opens."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        for file in process(Path(root)).iterdir():
            file.chmod(0o600)
        ((labels, missing),) = as_nobody(Path(root), [77])
    assert labels == {}
    assert set(missing.values()) == {"no_permission"}


def test_a_process_is_read_once_and_a_reused_pid_again(tmp_path: Path) -> None:
    folder = process(tmp_path, name="first", ticks=100)
    known = Processes(str(tmp_path))
    known.rows([77], 1.0)
    (folder / "comm").write_text("changed\n")
    (row,) = known.rows([77, 77], 2.0)
    assert (row.labels["name"], row.at) == ("first", 2.0)
    (folder / "stat").write_text(STAT.format(pid=77, name="second", ticks=200))
    (folder / "comm").write_text("second\n")
    assert known.rows([77], 3.0)[0].labels["name"] == "second"
    assert known.rows([], 4.0) == []
    (folder / "comm").write_text("third\n")
    assert known.rows([77], 5.0)[0].labels["name"] == "third"
