"""Job, step, task and container of a process by its control groups, whatever Slurm made them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.holders.membership import container, enroot, membership

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
SCOPE = "0::/system.slice/slurmstepd.scope/"
ID = "3f4a" * 16


@pytest.mark.parametrize(
    ("cgroups", "expected"),
    [
        pytest.param(V1_22, ("3", None, "0", "1"), id="v1-22.05"),
        pytest.param(V1_22_FREEZER_FIRST, ("3", None, "0", "1"), id="v1-freezer-first"),
        pytest.param(V1_FREEZER_ONLY, ("3", None, "batch", None), id="v1-freezer-only"),
        pytest.param(V1_24, ("3", None, "0", "9"), id="v1-24.11"),
        pytest.param(
            "0::/system.slice/gpu02_slurmstepd.scope/job_2/step_0/user/task_2\n",
            ("2", None, "0", "2"),
            id="v2-24.11",
        ),
        pytest.param(
            SCOPE + "job_26/step_extern/user/task_special\n",
            ("26", None, "extern", None),
            id="v2-extern",
        ),
        pytest.param(
            SCOPE + "s8FXKTA79XAR00/step_batch/user/task_0\n",
            (None, "s8FXKTA79XAR00", "batch", "0"),
            id="v2-26.05",
        ),
        pytest.param(
            "0::/site.slice/slurmstepd.scope/s8FXKTA79XAR00/step_3/slurm\n",
            (None, "s8FXKTA79XAR00", "3", None),
            id="v2-26.05-other-slice",
        ),
        pytest.param(SCOPE + "system\n", (None,) * 4, id="v2-system-is-no-job"),
        pytest.param(SCOPE + "sILOU579XAR0000/step_0\n", (None,) * 4, id="no-crockford"),
        pytest.param(SCOPE + "s8FXKTA79XAR/step_0\n", (None,) * 4, id="too-short-for-a-sluid"),
        pytest.param("0::/user.slice/session-1.scope\n", (None,) * 4, id="login"),
        pytest.param("0::/batch/job_51/step_0\n", (None,) * 4, id="not-below-slurms-root"),
        pytest.param("3:pids:/slurm/job_51/step_0\n", (None,) * 4, id="v1-of-nobody"),
        pytest.param(
            "0::/user.slice/user-7001.slice/user@7001.service/slurmstepd.scope/job_51/step_0\n",
            (None,) * 4,
            id="v2-made-by-a-user",
        ),
        pytest.param(
            "1:name=systemd:/user.slice/user-7001.slice/user@7001.service/slurm/uid_0/job_51/step_0\n",
            (None,) * 4,
            id="v1-made-by-a-user",
        ),
        pytest.param(
            SCOPE + "job_26/step_4/user/task_3/slurmstepd.scope/job_51/step_0\n",
            ("26", None, "4", "3"),
            id="v2-made-within-a-job",
        ),
        pytest.param(
            "5:pids:/docker/" + ID + "/slurm_c3/uid_7001/job_88/step_2/task_0\n",
            ("88", None, "2", "0"),
            id="a-slurmd-in-a-container",
        ),
        pytest.param("", (None,) * 4, id="empty"),
    ],
)
def test_job_step_and_task_of_a_cgroup(cgroups: str, expected: tuple[str | None, ...]) -> None:
    assert membership(cgroups)[:4] == expected


def test_the_folder_of_the_job_is_kept_by_controller() -> None:
    assert membership(V1_22).folders == {
        "devices": "/slurm_gpu03/uid_7001/job_3",
        "freezer": "/slurm_gpu03/uid_7001/job_3",
    }
    assert membership("0::/../../job_3/step_0\n").folders == {}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"/docker/{ID}", "docker:3f4a3f4a3f4a"),
        (f"/system.slice/docker-{ID}.scope", "docker:3f4a3f4a3f4a"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman:3f4a3f4a3f4a"),
        (f"/user.slice/user-7/libpod-{ID}.scope", "podman:3f4a3f4a3f4a"),
        (f"/kubepods/burstable/pod12-34/{ID}", "3f4a3f4a3f4a"),
        (f"/kubepods.slice/pod1.slice/cri-containerd-{ID}.scope", "containerd:3f4a3f4a3f4a"),
        (f"/kubepods.slice/pod1.slice/crio-{ID}.scope", "cri-o:3f4a3f4a3f4a"),
        (f"/docker/{'0' * 64}/docker/{ID}", "docker:3f4a3f4a3f4a"),
        ("/docker/3f4a", None),
        ("/slurm/uid_7001/job_3/step_0", None),
        ("/", None),
    ],
)
def test_a_container_is_named_by_its_engine_and_short_id(path: str, name: str | None) -> None:
    assert container(f"1:name=systemd:/\n0::{path}\n") == name


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("612 500 0:51 / / rw - overlay overlay rw,upperdir=/run/enroot/d/pyxis_26_26.0/u",
         "enroot:pyxis_26_26.0"),
        ("612 500 8:1 /var/enroot/data/user-7/pytorch+24.05 / rw - ext4 /dev/sda1 rw",
         "enroot:pytorch+24.05"),
        ("612 500 8:1 / / rw - ext4 /dev/sda1 rw", None),
        ("612 500 8:1 /enroot/x /mnt rw - ext4 /dev/sda1 rw", None),
        ("", None),
    ],
)  # fmt: skip
def test_an_enroot_container_is_known_by_what_is_mounted_on_its_root(
    root: str, name: str | None
) -> None:
    assert enroot(f"1 2 0:5 / /proc rw - proc proc rw\n{root}\n") == name


@given(st.text(alphabet="0:/job_step123s8FXKTA79XAR00\n.dockerlibpod-enroot ", max_size=300))
def test_no_text_is_too_strange(text: str) -> None:
    found = membership(text)
    assert found.job_id is None or found.job_id.isdigit()
    assert all(path.startswith("/") for path in found.folders.values())
    container(text)
    enroot(text)


def test_a_path_of_any_length_is_read_once() -> None:
    long = "/enroot/" * 60_000
    assert enroot(f"21 20 0:5 {long}! / rw - ext4 /dev/sda1 rw\n") is None
    assert enroot(f"21 20 0:5 {long}a+b/ / rw - ext4 /dev/sda1 rw\n") == "enroot:a+b"


@pytest.mark.parametrize(
    "root", ["/enroot/", "/run/enroot", "/enroot", "/x/enroot/a b", "/enroot//"]
)
def test_what_lies_in_no_folder_of_enroot_is_no_container_of_it(root: str) -> None:
    assert enroot(f"21 20 0:5 {root} / rw - ext4 /dev/sda1 rw\n") is None
