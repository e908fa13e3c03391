"""Jobs that are found by their control groups alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.probe.cgroups import Cgroups
from gpumon.probe.job_folders import PERIOD_S, JobFolders

if TYPE_CHECKING:
    from pathlib import Path

SLUID = "s0123456789ABC"


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
