"""One machine of the lab: namespaces and cgroups that boot, are entered and lose power."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.layout import CGROUP_ROOT, CONTROLLERS, HEAD, Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLEAN_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}
BOOT_TIMEOUT_S = 240.0
"""Alone a head boots in seconds; in a test run all lanes of all versions boot at once, on two
cores."""
KILL_TIMEOUT_S = 20.0
_SCRIPTS = Path(__file__).parent
_NAMESPACES = ("--net", "--uts", "--ipc", "--pid", "--mount", "--cgroup")


class LabError(RuntimeError):
    """The lab did not do what it was told; the message says which part, with the end of its log."""


class Machine:
    """A machine known by name. Whatever process manages it, its cgroups say what belongs to it."""

    def __init__(self, layout: Layout, name: str) -> None:
        self.layout = layout
        self.name = name
        self._process: subprocess.Popen[bytes] | None = None

    def pids(self) -> set[int]:
        """Every process of the machine, as the host numbers them."""
        found: set[int] = set()
        for top in self.layout.cgroups(self.name):
            for folder, _, _ in os.walk(top):
                found |= _members(Path(folder))
        return found

    def init_pid(self) -> int | None:
        """The host's number of the machine's process 1; None while it is off."""
        for pid in _members(self.layout.cgroups(self.name)[0]):
            if _namespace_pids(pid)[1:] == [1]:
                return pid
        return None

    def start(self) -> None:
        """Switches power on; `wait_booted` says when its services answer.

        Raises:
            LabError: its process 1 did not appear.
        """
        self._booted_mark().unlink(missing_ok=True)
        for cgroup in self.layout.cgroups(self.name):
            cgroup.mkdir(parents=True, exist_ok=True)
        join = (
            'for c in $1; do echo $$ >"/sys/fs/cgroup/$c/$2/cgroup.procs"; done; shift 2; exec "$@"'
        )
        role = "head" if self.name == HEAD else "node"
        command = ["sh", "-euc", join, "sh", " ".join(CONTROLLERS), self._cgroup()]
        command += ["unshare", *_NAMESPACES, "--fork", "--kill-child"]
        command += [str(_SCRIPTS / "machine.sh"), self.name, role]
        tree = str(self.layout.release.tree or "")
        command += [self.layout.address(self.name), str(self.layout.state), tree, *CONTROLLERS]
        with self._boot_log().open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=CLEAN_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        self._plug_cable(self._await_init())

    def wait_booted(self) -> None:
        """Returns when every service of the machine was started.

        Raises:
            LabError: it stopped or took longer than BOOT_TIMEOUT_S.
        """
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while not self._booted_mark().exists():
            if self.init_pid() is None:
                raise LabError(f"{self.name} stopped while booting: {self._boot_log_tail()}")
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} does not boot: {self._boot_log_tail()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Takes power away: the cable goes dead first, so that nobody is told, then all processes.

        Raises:
            LabError: a process or a cgroup of the machine survived.
        """
        if Path("/sys/class/net", self.layout.cable(self.name)).exists():
            self.cut_cable()
            _ip("link", "delete", self.layout.cable(self.name))
        self._kill_processes()
        for cgroup in self.layout.cgroups(self.name):
            _remove_cgroup(cgroup)

    def cut_cable(self) -> None:
        """Loses every packet from and to the machine from now on."""
        _ip("link", "set", self.layout.cable(self.name), "down")

    def mend_cable(self) -> None:
        """Takes cut_cable back."""
        _ip("link", "set", self.layout.cable(self.name), "up")

    def argv(
        self, user: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """The host's command that runs `command` in the machine, as a fresh login of `user` would.

        Raises:
            LabError: the machine is off.
        """
        init = self.init_pid()
        if init is None:
            raise LabError(f"{self.name} is off")
        home = "/root" if user == "root" else f"/home/{user}"
        path = [f"PATH={CLEAN_ENVIRONMENT['PATH']}"] if user == "root" else []
        more = [f"{key}={value}" for key, value in (environment or {}).items()]
        entering = [str(_SCRIPTS / "enter.sh"), str(init), self._cgroup(), " ".join(CONTROLLERS)]
        becoming = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--reset-env"]
        return [
            *entering,
            *becoming,
            "env",
            f"--chdir={home}",
            "LANG=C.UTF-8",
            # A test asks what is so now, not what another one was told half a minute ago.
            "GPUMON_SHARE=no",
            *path,
            *more,
            *command,
        ]

    def _cgroup(self) -> str:
        return f"{self.layout.cgroup}/{self.name}"

    def _booted_mark(self) -> Path:
        return self.layout.machine(self.name) / "booted"

    def _boot_log(self) -> Path:
        return self.layout.machine(self.name) / "boot.log"

    def _boot_log_tail(self) -> str:
        return self._boot_log().read_text(errors="replace")[-2000:] or "its log is empty"

    def _await_init(self) -> int:
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while time.monotonic() < deadline:
            init = self.init_pid()
            if init is not None:
                return init
            if self._process is not None and self._process.poll() is not None:
                break
            time.sleep(0.01)
        raise LabError(f"{self.name} does not start: {self._boot_log_tail()}")

    def _plug_cable(self, init: int) -> None:
        cable = self.layout.cable(self.name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(init))
        _ip("link", "set", cable, "master", self.layout.bridge, "up")

    def _kill_processes(self) -> None:
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while pids := self.pids():
            init = self.init_pid()
            for pid in [init] if init is not None else pids:
                _kill(pid)
            _thaw(self.layout.cgroups(self.name)[0])
            if self._process is not None:
                self._process.poll()
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: these processes survive SIGKILL: {sorted(pids)}")
            time.sleep(0.01)
        if self._process is not None:
            self._process.wait()
            self._process = None


def _members(cgroup: Path) -> set[int]:
    try:
        return {int(line) for line in (cgroup / "cgroup.procs").read_text().split()}
    except OSError:  # the cgroup was removed, which Slurm does whenever a step ends
        return set()


def _namespace_pids(pid: int) -> list[int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it ended
        return []
    return [int(part) for line in lines if line.startswith("NSpid:") for part in line.split()[1:]]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _thaw(freezer: Path) -> None:
    """Lets killed processes end that Slurm had frozen: those keep their signals pending."""
    for folder, _, files in os.walk(freezer):
        if "freezer.state" in files:
            try:
                Path(folder, "freezer.state").write_text("THAWED")
            except OSError:  # a cgroup that Slurm removed meanwhile
                continue


def _remove_cgroup(top: Path) -> None:
    if top.relative_to(CGROUP_ROOT).parts[1:] == ():
        raise LabError(f"refusing to remove {top}")
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while top.exists():
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError as error:  # busy until the kernel has reaped the last process
                if time.monotonic() > deadline:
                    raise LabError(f"{folder} stays: {error}") from error
                time.sleep(0.01)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"ip {' '.join(words)}: {done.stderr.strip()}")
