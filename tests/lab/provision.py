"""Writes everything that the machines of a lab need before they boot."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from string import Template
from typing import TYPE_CHECKING

from tests.lab.layout import (
    CONFIGURATION,
    GPUS_PER_NODE,
    HEAD,
    MACHINES,
    NODES,
    REPOSITORY,
    REST_USER,
    USERS,
    Layout,
)
from tests.lab.machine import CLEAN_ENVIRONMENT, LabError
from tests.lab.standin import driver
from tests.lab.standin.profiles import PROFILES

if TYPE_CHECKING:
    from pathlib import Path


def provision(layout: Layout) -> None:
    """Makes the files of a new lab; of an older one only `layout.cache` is taken over."""
    for folder in (layout.shared, layout.state / "machines"):
        if folder.exists():
            shutil.rmtree(folder)
    for folder in (layout.state, layout.cache, layout.shared, layout.shared / "etc"):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    library = driver.build(layout.cache)
    for name in MACHINES:
        _make_machine(layout, name)
    for name in NODES:
        _install_driver(layout, name, library)
    _make_users(layout)
    _make_hosts(layout)
    _configure_slurm(layout)
    shutil.copyfile(REPOSITORY / "tests/lab/standin/workload.py", layout.workload)


def install_gpumon(layout: Layout) -> None:
    """Builds the wheel of this tree and installs it with its locked dependencies in `layout.venv`.

    Raises:
        LabError: the uv of this repository is missing, or one of its commands failed.
    """
    uv = REPOSITORY / ".uv/bin/uv"
    if not uv.exists():
        raise LabError(f"{uv} is missing: `make .venv/.ready` puts it there")
    wheels = layout.cache / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    build = ["build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", str(wheels)]
    _run([str(uv), *build, "--python", str(REPOSITORY / ".venv/bin/python"), str(REPOSITORY)])
    (wheel,) = wheels.glob("*.whl")
    install = [str(uv), "pip", "install", "--quiet", "--link-mode", "copy"]
    install += ["--constraint", str(REPOSITORY / "requirements.lock")]
    install += ["--reinstall-package", "gpumon", str(wheel)]
    if layout.release.tree is None:
        python = layout.venv / "bin/python"
        if not (layout.venv / "pyvenv.cfg").exists():
            # What an interrupted run left may be half of an environment.
            shutil.rmtree(layout.venv, ignore_errors=True)
            _run([str(uv), "venv", "--quiet", "--python", "/usr/bin/python3", str(layout.venv)])
        _run([*install, "--python", str(python)])
    else:
        _install_in_tree(layout, install)


def _install_in_tree(layout: Layout, install: list[str]) -> None:
    """Installs for a Python that only the machines have, where `python -m venv` would put it."""
    version = layout.release.python
    commands, packages = layout.venv / "bin", layout.venv / f"lib/python{version}/site-packages"
    for folder in (commands, packages):
        folder.mkdir(parents=True, exist_ok=True)
    (layout.venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    python = commands / "python"
    if not python.is_symlink():
        python.symlink_to("/usr/bin/python3")
    _run([*install, "--python-version", version, "--target", str(packages)])
    script = (packages / "bin/gpumon").read_text().split("\n", 1)[1]
    (commands / "gpumon").write_text(f"#!{python}\n{script}")
    (commands / "gpumon").chmod(0o755)


def _make_machine(layout: Layout, name: str) -> None:
    own = layout.machine(name)
    for folder in ("var/log", "var/lib/munge", "var/log/munge", "var/spool", "ssh"):
        (own / folder).mkdir(parents=True)
    (own / "root").mkdir(mode=0o700)
    (own / "var/run").symlink_to("/run")
    for shared_scratch in (own / "var/tmp", own / "var/cache"):
        shared_scratch.mkdir()
    (own / "var/tmp").chmod(0o1777)
    for folder in ("var/lib/munge", "var/log/munge"):
        os.chown(own / folder, *layout.release.ids("munge"))
    shutil.copyfile(CONFIGURATION / "sshd_config", own / "ssh/sshd_config")
    shutil.copyfile(_ssh_key(layout, f"host_{name}"), own / "ssh/lab_host_key")
    (own / "ssh/lab_host_key").chmod(0o600)
    if name == HEAD:
        (own / "var/spool/slurmctld").mkdir()
        for path in ("spool/slurmctld", "log/slurmctld.log", "log/slurmdbd.log"):
            (own / "var" / path).touch()
            os.chown(own / "var" / path, *layout.release.ids("slurm"))


def _install_driver(layout: Layout, name: str, library: Path) -> None:
    """Makes the stand-in what the dynamic linker of one node finds, with a state of its own."""
    own = layout.machine(name)
    values = PROFILES["h100"](GPUS_PER_NODE, NODES[name], name)
    state = driver.State(layout.driver_state(name), values)
    state.set(devices="on")
    state.write()
    (own / "ld.so.conf").write_text(f"{library.parent}\ninclude /etc/ld.so.conf\n")
    (own / "ld.so.cache").touch()


def _make_users(layout: Layout) -> None:
    etc = layout.shared / "etc"
    added = {**USERS, REST_USER[0]: REST_USER[1]}
    known = layout.release.root / "etc"
    files = {name: (known / name).read_text() for name in ("passwd", "group", "shadow")}
    for user, uid in added.items():
        home = f"/home/{user}" if user in USERS else "/nonexistent"
        files["passwd"] += f"{user}:x:{uid}:{uid}:{user}:{home}:/bin/bash\n"
        files["group"] += f"{user}:x:{uid}:\n"
        # "*" keeps keys usable where "!" would lock the account.
        files["shadow"] += f"{user}:*:19000:0:99999:7:::\n"
    for name, text in files.items():
        (etc / name).write_text(text)
    (etc / "shadow").chmod(0o640)
    for user in USERS:
        _make_home(layout, user)


def _make_home(layout: Layout, user: str) -> None:
    home = layout.shared / "home" / user
    (home / ".ssh").mkdir(parents=True)
    key = _ssh_key(layout, f"user_{user}")
    shutil.copyfile(key, home / ".ssh/id_ed25519")
    public = key.with_suffix(".pub").read_text()
    (home / ".ssh/id_ed25519.pub").write_text(public)
    (home / ".ssh/authorized_keys").write_text(public)
    known = ""
    for name in MACHINES:
        words = _ssh_key(layout, f"host_{name}").with_suffix(".pub").read_text().split()
        known += f"{name},{layout.address(name)} {words[0]} {words[1]}\n"
    (home / ".ssh/known_hosts").write_text(known)
    for path in (home, *home.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(path, USERS[user], USERS[user])


def _make_hosts(layout: Layout) -> None:
    lines = ["127.0.0.1 localhost", f"{layout.bridge_address} carrier"]
    lines += [f"{layout.address(name)} {name}" for name in MACHINES]
    (layout.shared / "etc/hosts").write_text("\n".join(lines) + "\n")


def _configure_slurm(layout: Layout) -> None:
    slurm = layout.shared / "slurm"
    slurm.mkdir()
    values = {
        "head_address": layout.address(HEAD),
        "gpu_addresses": ",".join(layout.address(name) for name in NODES),
    }
    for name in (
        "slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "slurmdbd.conf", "accounts.cfg"
    ):  # fmt: skip
        text = Template((CONFIGURATION / name).read_text()).substitute(values)
        (slurm / name).write_text(text)
    shutil.copyfile(CONFIGURATION / "database.sql", slurm / "database.sql")
    slurm_ids, munge_ids = layout.release.ids("slurm"), layout.release.ids("munge")
    _write_secret(slurm / "jwt_hs256.key", slurm_ids)
    (slurm / "slurmdbd.conf").chmod(0o600)
    os.chown(slurm / "slurmdbd.conf", *slurm_ids)
    munge = layout.shared / "munge"
    munge.mkdir(mode=0o700)
    _write_secret(munge / "munge.key", munge_ids)
    os.chown(munge, *munge_ids)


def _write_secret(path: Path, owner: tuple[int, int]) -> None:
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(32))
    os.chown(path, *owner)


def _ssh_key(layout: Layout, name: str) -> Path:
    key = layout.cache / "ssh" / name
    key.parent.mkdir(mode=0o700, exist_ok=True)
    if not key.exists():
        _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)])
    return key


def _run(command: list[str]) -> None:
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{CLEAN_ENVIRONMENT['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
