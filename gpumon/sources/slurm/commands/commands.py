"""Runs Slurm's commands: no shell, a neutral environment, a deadline, bounded output."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
from typing import IO, TYPE_CHECKING, Final

from gpumon.model.cluster_names import ASK_A_CLUSTER, asking
from gpumon.sources.slurm.commands import failures, token
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json import cluster_name
from gpumon.sources.slurm.text import gres_conf
from gpumon.sources.source import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.sources.source import Clock

TIMEOUT_S: Final = 30.0
"""A controller that is down makes Slurm's commands give up after about 10 s by themselves."""

MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""About 250,000 jobs at 1 kB each."""

_MAX_STDERR_BYTES: Final = 16 * 1024
"""Of an error's output only the first lines are shown."""

_CHUNK_BYTES: Final = 64 * 1024
"""Read from a pipe at once: its size on Linux (pipe(7))."""

_CHECK_S: Final = 0.05
"""Longest sleep between two checks of the deadline and the process."""

_REAP_S: Final = 1.0
"""A command that hangs in the kernel, on a file system that is gone, dies only when it comes back:
its time is over all the same, and that is reported."""

_ENV_NOT_FOUND: Final = 127
_SSH_FAILED: Final = 255
"""What env(1) and ssh(1) end with when the command was never run."""

_PASSED_ON: Final = frozenset({"SLURM_CONF", "SLURM_JWT"})
"""Which cluster, and who asks; every other variable of Slurm's changes what is shown."""

_FAMILIES: Final = ("SLURM_", "SCONTROL_", "SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_")
_SET: Final = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
"""English messages, and times as seconds since 1970, free of zones and summer time."""

_UNSET: Final = (
    "SCANCEL_ACCOUNT",
    "SCANCEL_BATCH",
    "SCANCEL_CRON",
    "SCANCEL_CTLD",
    "SCANCEL_FULL",
    "SCANCEL_HURRY",
    "SCANCEL_INTERACTIVE",
    "SCANCEL_NAME",
    "SCANCEL_PARTITION",
    "SCANCEL_QOS",
    "SCANCEL_STATE",
    "SCANCEL_USER",
    "SCANCEL_VERBOSE",
    "SCANCEL_WCKEY",
    "SCONTROL_ALL",
    "SCONTROL_FEDERATION",
    "SCONTROL_FUTURE",
    "SCONTROL_LOCAL",
    "SCONTROL_SIBLING",
    "SLURM_BITSTR_LEN",
    "SLURM_CLUSTERS",
    "SLURM_TOPO_LEN",
    "SINFO_PARTITION",
    "SQUEUE_ACCOUNT",
    "SQUEUE_LICENSES",
    "SQUEUE_NAMES",
    "SQUEUE_PARTITION",
    "SQUEUE_QOS",
    "SQUEUE_STATES",
    "SQUEUE_USERS",
)
"""Variables by which the commands leave something out or add it, or turn to another cluster (their
manual pages, ENVIRONMENT VARIABLES), for the far end of a hop."""


def neutral_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what makes Slurm's commands answer differently."""
    passed_on = {
        key: value
        for key, value in environ.items()
        if key in _PASSED_ON or not key.startswith(_FAMILIES)
    }
    return {**passed_on, **_SET}


class SlurmCommands:
    """Runs one command at a time; `close` from another thread ends it."""

    def __init__(
        self,
        prefix: Sequence[str] = (),
        *,
        cluster: str = "",
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int = MAX_OUTPUT_BYTES,
    ) -> None:
        """Run commands here, or behind `prefix`, which starts them on a login node.

        `cluster` is the one that they ask, by their `-M`; empty: their own.
        """
        self.cluster = cluster
        self._clock = clock or SystemClock()
        self._environ = neutral_environment(os.environ if environ is None else environ)
        self._prefix = tuple(prefix)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    @property
    def is_local(self) -> bool:
        """Whether the commands run on this machine, so that its Slurm files are theirs."""
        return not self._prefix

    @property
    def identity(self) -> str:
        """What distinguishes the cluster that is asked, and who asks; may hold a secret."""
        conf, asker = self._environ.get("SLURM_CONF", ""), token.asker(self._environ)
        program = shutil.which(self._prefix[0] if self._prefix else "scontrol", path=self._path)
        name = cluster_name.of_this_machine(self._environ) if self.is_local else ""
        here = (socket.gethostname(), program or "", conf, name, asker, self.cluster)
        return "\0".join((*here, *self._prefix))

    def available(self) -> bool:
        """Whether scontrol is on the path; behind a hop only a call can show it, so True."""
        if not self.is_local:
            return True
        return shutil.which("scontrol", path=self._path) is not None

    @property
    def _path(self) -> str | None:
        return self._environ.get("PATH")

    def is_configured(self) -> bool:
        """Whether the commands are here and know a cluster; its controller may still be silent."""
        if not self.available():
            return False
        try:
            self._run(("scontrol", "ping"), "scontrol ping")
        except CommandFailedError as failed:
            return failures.NO_CONFIGURATION not in failed.error.message
        return True

    def show(self, what: str) -> str:
        """What scontrol prints about everything of that kind, hidden partitions included.

        Slurm still leaves out what this user may not see (PrivateData).

        Raises:
            CommandFailedError: it printed nothing of use; the error in it names the way out.
        """
        return self._run(
            ("scontrol", "--verbose", "--all", "--details", "show", what), f"scontrol show {what}"
        )

    def topology(self) -> str:
        """What scontrol prints about switches or blocks, empty where it knows of none.

        A controller that is silent lets this command end well, only with a complaint. What it
        complains of else is a failure, too, since a topology that is there must not seem gone.

        Raises:
            CommandFailedError: the controller could not be asked.
        """
        name = "scontrol show topology"
        try:
            text, complaint = self.ask(("scontrol", "show", "topology"), name)
        except CommandFailedError as failed:
            if self._has_no_topology(failed.error.message):
                return ""
            raise
        if text.strip() or not complaint.strip() or self._has_no_topology(complaint):
            return text
        raise CommandFailedError(failures.complained(name, complaint))

    def _has_no_topology(self, text: str) -> bool:
        """Whether these words mean none, or one that no command here can read."""
        is_unlike = bool(self.cluster) and failures.is_of_another_kind(text)
        return is_unlike or failures.means_no_topology(text)

    def show_json(self, words: tuple[str, ...]) -> str:
        """What one of `queue.COMMANDS` prints.

        Raises:
            CommandFailedError: it printed nothing of use.
        """
        return self._run(words, " ".join(word for word in words if word != "--all"))

    def far_gres_conf(self) -> str:
        """Text of the login node's gres.conf, empty where there is none; only behind a prefix.

        Raises:
            CommandFailedError: the login node gave no answer.
        """
        places = ('"${SLURM_CONF%/*}"', *gres_conf.DIRECTORIES)
        script = " || ".join(f"cat {place}/gres.conf 2>/dev/null" for place in places)
        # As a comment, which names the cluster of the file.
        confs = " ".join(f"{place}/slurm.conf" for place in places)
        name = f'grep -ihs "^[[:blank:]]*ClusterName" {confs} | head -n 1 | sed "s/^/#/"'
        script = f"{name}; {script}"
        # ssh joins the words for the login shell, which takes what is in quotes for one.
        words = ("sh", "-c", f"'{script} || true'")
        return self._run(words, "cat gres.conf")[: gres_conf.MAX_BYTES + 1]

    def close(self) -> None:
        """End the running command, if any, and refuse new ones."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                _kill_group(self._process)

    def _run(self, words: tuple[str, ...], name: str) -> str:
        """Standard output of a command that ended well."""
        return self.ask(words, name)[0]

    def ask(self, words: tuple[str, ...], name: str) -> tuple[str, str]:
        """What a command that ended well printed: standard output, and its complaints.

        Raises:
            CommandFailedError: it ended otherwise; the error in it calls it by `name`.
        """
        process = self._start(words, name)
        output = _Output(process, self._max_bytes)
        deadline = self._clock.monotonic() + self._timeout_s
        try:
            while not output.is_complete:
                output.take(_CHECK_S)
                if output.is_too_long:
                    raise CommandFailedError(failures.too_long(name, self._max_bytes))
                if not output.is_complete and self._clock.monotonic() >= deadline:
                    raise CommandFailedError(failures.timed_out(name, self._timeout_s))
        finally:
            with self._lock:
                self._process = None
                _kill_group(process)
            _collect(process)
            output.close()
        stderr = output.stderr.decode("utf-8", "replace")
        if process.returncode != 0:
            raise CommandFailedError(self._failure(words, name, process.returncode, stderr))
        return output.stdout.decode("utf-8", "replace"), stderr

    def _failure(self, words: tuple[str, ...], name: str, status: int, stderr: str) -> SourceError:
        """What a status other than 0 means."""
        if self._is_closed:
            return failures.stopped(name)
        failed = self.hop_failure(name, words[0], status, stderr)
        return failed or failures.refused(name, status, stderr)

    def hop_failure(
        self, name: str, program: str, status: int | None, stderr: str
    ) -> SourceError | None:
        """Why a command was never run behind the hop; None: it was."""
        if self._prefix and status == _ENV_NOT_FOUND:
            return failures.not_found(name, program)
        if self._prefix and status == _SSH_FAILED:
            return failures.hop_failed(name, stderr)
        return None

    def call(self, words: tuple[str, ...]) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """What is to be started for a command, and in which environment."""
        if self.cluster and words[0] in ASK_A_CLUSTER:
            words = asking(self.cluster, words)
        if not self._prefix:
            return words, self._environ
        unset = (word for key in _UNSET for word in ("-u", key))
        assigned = (f"{key}={value}" for key, value in _SET.items())
        return (*self._prefix, "env", *unset, *assigned, *words), self._environ

    def _start(self, words: tuple[str, ...], name: str) -> subprocess.Popen[bytes]:
        """The command as a process that leads a group of its own."""
        argv, environ = self.call(words)
        with self._lock:
            if self._is_closed:
                raise CommandFailedError(failures.stopped(name))
            try:
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environ,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise CommandFailedError(failures.not_found(name, argv[0])) from None
            except OSError as error:
                raise CommandFailedError(failures.not_started(name, error)) from error
            return self._process


class _Output:
    """Collects what a process prints until it ends, also if a child keeps its pipes open."""

    def __init__(self, process: subprocess.Popen[bytes], max_bytes: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.is_complete = False
        self._process = process
        self._max_bytes = max_bytes
        self._selector = selectors.DefaultSelector()
        self._pipes: list[IO[bytes]] = []
        for pipe, sink in ((process.stdout, self.stdout), (process.stderr, self.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, sink)
                self._pipes.append(pipe)

    @property
    def is_too_long(self) -> bool:
        """Whether there was more output than allowed."""
        return len(self.stdout) > self._max_bytes

    def take(self, seconds: float) -> None:
        """Read what is there, waiting for it at most that long."""
        if not self._selector.get_map():
            self._wait(seconds)
            return
        # The end is looked up before the pipes, so that nothing printed before it is missed.
        has_ended = self._process.poll() is not None
        ready = self._selector.select(0 if has_ended else seconds)
        for key, _ in ready:
            chunk = os.read(key.fd, _CHUNK_BYTES)
            if not chunk:
                self._selector.unregister(key.fileobj)
            elif key.data is self.stdout or len(self.stderr) < _MAX_STDERR_BYTES:
                key.data.extend(chunk)
        self.is_complete = has_ended and not ready

    def _wait(self, seconds: float) -> None:
        """Wait for the end of a process that has closed its pipes."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        self.is_complete = True

    def close(self) -> None:
        """Give the pipes back."""
        self._selector.close()
        for pipe in self._pipes:
            pipe.close()


def _collect(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a killed process, for a while here and for the rest elsewhere."""
    try:
        process.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, name="slurm's end", daemon=True).start()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything it started; one that has ended and is reaped is left."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            # It ended between the two calls, which is what we want.
            return
