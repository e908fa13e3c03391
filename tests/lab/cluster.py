"""A real Slurm cluster on this machine, as an object; `python -m tests.lab` is its command line."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.lab.layout import HEAD, MACHINES, NODES, Layout
from tests.lab.machine import LabError, Machine
from tests.lab.provision import install_gpumon, provision
from tests.lab.standin import driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

READY_TIMEOUT_S = 240.0
"""For a new cluster beside many others that start."""
COMMAND_TIMEOUT_S = 150.0
"""Nobody waits for it where all is well; every lane of the lab may be at work at once."""
PATIENCE_S = 600
ENDING_S = 20.0
SLURM_CONF = "/etc/slurm/slurm.conf"
ENDED = frozenset(
    ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL")
)


class Cluster:
    """The lab of one slot: machines `head`, `gpu01`, `gpu02`, `gpu03`; users `alice` and `bob`."""

    def __init__(self, layout: Layout | None = None) -> None:
        self.layout = layout or Layout.chosen()
        self.machines = {name: Machine(self.layout, name) for name in MACHINES}
        self._lock: IO[bytes] | None = None

    def lock(self, timeout_s: float = 0.0) -> None:
        """Makes this process the only one that may bring this slot up or down, until `unlock`.

        Raises:
            LabError: another process holds it.
        """
        if self._lock is not None:
            return
        self.layout.state.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = (self.layout.state / "lock").open("ab")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    lock.close()
                    raise LabError(f"another process uses {self.layout.state}") from error
                time.sleep(0.2)
        self._lock = lock

    def unlock(self) -> None:
        """Lets other processes bring this slot up or down; the end of the process does the same."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def up(self) -> None:
        """Makes a new cluster, after clearing away whatever an earlier one left.

        Raises:
            LabError: something did not start; the lab is down again then.
        """
        self.lock()
        self.down()
        try:
            provision(self.layout)
            _make_bridge(self.layout)
            for machine in self.machines.values():
                machine.start()
            for machine in self.machines.values():
                machine.wait_booted()
            self.wait_idle(NODES)
        except BaseException:
            self.down()
            raise

    def down(self, *, purge: bool = False) -> None:
        """Ends every process of the lab and takes its network and cgroups away; safe to repeat.

        Args:
            purge: also delete its files, with the cache that makes the next `up` quick.
        """
        self.lock()
        for machine in self.machines.values():
            machine.kill()
        for cgroup in self.layout.cgroups():
            if cgroup.exists():
                cgroup.rmdir()
        if Path("/sys/class/net", self.layout.bridge).exists():
            subprocess.run(["ip", "link", "delete", self.layout.bridge], check=True)
        if purge:
            shutil.rmtree(self.layout.state)

    def install_gpumon(self) -> Path:
        """Puts gpumon where every user can start it; returns the path of the command."""
        install_gpumon(self.layout)
        return self.layout.venv / "bin/gpumon"

    def argv_as(
        self,
        user: str,
        argv: Sequence[str],
        node: str = HEAD,
        env: Mapping[str, str] | None = None,
    ) -> list[str]:
        """The host's command that runs argv there, for whoever starts it (tmux, a pty)."""
        return self.machines[node].argv(user, argv, env)

    def popen_as(
        self,
        user: str,
        argv: Sequence[str],
        node: str = HEAD,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Starts a command with pipes. Its pid is that of a wrapper: use `signal` to reach it."""
        return subprocess.Popen(
            self.argv_as(user, argv, node, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def signal(self, process: subprocess.Popen[str], number: int = signal.SIGKILL) -> None:
        """Sends a signal to the command that popen_as started; nothing happens if it has ended."""
        for pid in _children(process.pid):
            os.kill(pid, number)

    def run_as(
        self,
        user: str,
        argv: Sequence[str],
        node: str = HEAD,
        *,
        env: Mapping[str, str] | None = None,
        input: str | None = None,  # noqa: A002  the word of subprocess.run
        timeout: float = COMMAND_TIMEOUT_S,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, with its output as text.

        Raises:
            LabError: it failed (and `check` was asked for) or took longer than `timeout` seconds.
        """
        with self.popen_as(user, argv, node, env) as process:
            try:
                out, err = process.communicate(input, timeout)
            except subprocess.TimeoutExpired as error:
                self.signal(process)
                process.kill()
                raise LabError(f"{node}: {shlex.join(argv)}: not done in {timeout} s") from error
        if check and process.returncode != 0:
            output = (err or out).strip()[-2000:]
            raise LabError(f"{node}: {shlex.join(argv)}: exit {process.returncode}: {output}")
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def run_on(
        self,
        node: str,
        argv: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002  the word of subprocess.run
        timeout: float = COMMAND_TIMEOUT_S,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as root of a machine; see run_as."""
        return self.run_as("root", argv, node, input=input, timeout=timeout, check=check)

    def submit(self, user: str, script: str | Sequence[str], *options: str) -> int:
        """Submits a batch script, or one command to run under srun; returns the job's number."""
        if not isinstance(script, str):
            script = f"exec srun {shlex.join(script)}\n"
        if not script.startswith("#!"):
            script = f"#!/bin/sh\n{script}"
        done = self.run_as(user, ["sbatch", "--parsable", *options], input=script)
        return int(done.stdout.split(";")[0])

    def job_state(self, job_id: int) -> str:
        """What Slurm calls the job's state now."""
        done = self.run_on(HEAD, ["scontrol", "show", "job", "-o", str(job_id)])
        return dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)["JobState"]

    def wait_job(
        self, job_id: int, states: Iterable[str] = ENDED, timeout: float = COMMAND_TIMEOUT_S
    ) -> str:
        """Waits until a job is in one of the states (by default: has ended); returns which.

        Raises:
            LabError: it did not happen, or the job ended in another state.
        """
        wanted = frozenset(states)
        state = ""

        def reached() -> bool:
            nonlocal state
            state = self.job_state(job_id)
            if state in ENDED - wanted:
                raise LabError(f"job {job_id} is {state}, not {' or '.join(sorted(wanted))}")
            return state in wanted

        self.wait_until(reached, f"job {job_id} {' or '.join(sorted(wanted))}", timeout)
        return state

    def cancel(self, *job_ids: int) -> None:
        """Cancels jobs and waits until they are gone from their nodes."""
        self.run_on(HEAD, ["scancel", *map(str, job_ids)])
        for job_id in job_ids:
            self.wait_job(job_id)

    def node_states(self) -> dict[str, str]:
        """Slurm's short state per node, such as `idle`, `mix`, `down*`."""
        lines = self.run_on(HEAD, ["sinfo", "-h", "-p", "gpu", "-N", "-o", "%N %t"]).stdout
        return dict(line.split() for line in lines.splitlines())

    def wait_idle(self, nodes: Iterable[str], timeout: float = READY_TIMEOUT_S) -> None:
        """Waits until Slurm calls the nodes idle.

        Raises:
            LabError: they are not in time.
        """
        wanted = set(nodes)

        def idle() -> bool:
            try:
                states = self.node_states()
            except LabError:  # the controller may still be starting
                return False
            return all(states.get(node) == "idle" for node in wanted)

        self.wait_until(idle, f"{sorted(wanted)} idle", timeout)

    def wait_until(
        self, holds: Callable[[], bool], what: str, timeout: float = COMMAND_TIMEOUT_S
    ) -> None:
        """Asks again and again until something holds.

        Raises:
            LabError: it does not within `timeout` seconds; the message holds what Slurm says.
        """
        deadline = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > deadline:
                done = self.run_on(HEAD, ["sh", "-c", "sinfo; squeue"], check=False)
                raise LabError(f"not in {timeout} s: {what}\n{done.stdout}{done.stderr}")
            time.sleep(0.1)

    def end_controller(self) -> None:
        """Ends slurmctld, which saves its state first: killed, it would not know the newest jobs.

        One that does not end is killed all the same: slurmctld 24.11 was seen to stand still for
        good, without a line in its log, when it was told to end.
        """

        def is_gone() -> bool:
            found = self.run_on(HEAD, ["pgrep", "slurmctld"], check=False)
            return found.returncode != 0

        self.run_on(HEAD, ["pkill", "-TERM", "slurmctld"])
        try:
            self.wait_until(is_gone, "slurmctld ended", ENDING_S)
        except LabError:
            self.run_on(HEAD, ["pkill", "-KILL", "slurmctld"], check=False)
            self.wait_until(is_gone, "slurmctld killed")

    def power_off(self, node: str) -> None:
        """Kills a machine as a loss of power does: no process of it says good-bye."""
        self.machines[node].kill()

    def power_on(self, node: str) -> None:
        """Boots a machine with the files that it had; waits until its services are started."""
        self.machines[node].start()
        self.machines[node].wait_booted()

    def declare_down(self, node: str) -> None:
        """Tells Slurm what it would find out after SlurmdTimeout: its jobs there fail now."""
        self.run_on(HEAD, ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lab"])

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Has Slurm keep a silent node and its jobs for PATIENCE_S instead of for SlurmdTimeout.

        SlurmdTimeout is no longer than the lease of a probe, so a cable that is cut for a lease
        may cost the job. Enter it before anything watches: newer controllers start anew for it.
        """
        with self.configured(SlurmdTimeout=PATIENCE_S):
            yield

    @contextmanager
    def configured(self, **settings: object) -> Iterator[None]:
        """Has Slurm run with other settings of slurm.conf meanwhile; newer controllers restart."""
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        wanted = "|".join(settings)
        make = f"cp {SLURM_CONF} {SLURM_CONF}.kept; sed -i -E '/^({wanted})=/d' {SLURM_CONF}"
        # The lines of nodes and partitions stand last, and a setting may stand anywhere.
        self.run_on(HEAD, ["sh", "-ec", f"{make}; cat >>{SLURM_CONF}"], input=lines)
        try:
            self._reconfigure()
            yield
        finally:
            self.run_on(HEAD, ["mv", f"{SLURM_CONF}.kept", SLURM_CONF])
            self._reconfigure()

    def _reconfigure(self) -> None:
        """Has Slurm read its configuration again; returns when it knows all nodes again."""
        self.run_on(HEAD, ["scontrol", "reconfigure"])

        def knows() -> bool:
            try:
                return not any("unk" in state for state in self.node_states().values())
            except LabError:  # the controller is starting anew
                return False

        self.wait_until(knows, "the nodes known again")

    def cut_cable(self, node: str) -> None:
        """Silently loses all packets of a machine until mend_cable."""
        self.machines[node].cut_cable()

    def mend_cable(self, node: str) -> None:
        """Takes cut_cable back."""
        self.machines[node].mend_cable()

    def driver(self, node: str) -> driver.State:
        """The node's stand-in driver, to inject values and faults; `write()` publishes them."""
        return driver.State.load(self.layout.driver_state(node))

    def is_up(self) -> bool:
        """Whether every machine is on."""
        return all(machine.init_pid() is not None for machine in self.machines.values())


def _make_bridge(layout: Layout) -> None:
    for words in (
        ("link", "add", layout.bridge, "type", "bridge"),
        ("address", "add", f"{layout.bridge_address}/24", "dev", layout.bridge),
        ("link", "set", layout.bridge, "up"),
    ):
        subprocess.run(["ip", *words], check=True)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:  # it has ended
        return []
