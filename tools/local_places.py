"""Pictures of `gpumon local` in many places: real processes, the stand-in driver.

    python -m tools.local_places                      every picture of the docs; as root
    python -m tools.local_places --only mig,hidepid   these of them

Where nvitop (of the benchmark's environment) and nvtop are installed, the first place is drawn of
them as well.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.bench import peers
from tests.lab.standin import driver
from tests.lab.standin.profiles import PROFILES
from tests.lab.standin.state import State
from tools.screenshots import IMAGES, ROOT, capture, svg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE: Final = (120, 40)
WARM_UP_S: Final = 14.0
"""Rates need two readings, and a GPU's past a first cell."""

ORDINARY: Final = 65534
"""A user without any right of its own: `nobody`."""

GIB: Final = 2**30
CHURN_S: Final = 0.06
"""Between two processes that begin: 1,000 a minute."""
LIFE_S: Final = 1.5
"""How long each of them lives."""

_HOST: Final = "desk"
"""What the machine is called in the pictures."""
_HIDING: Final = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
_WITHOUT_RIGHTS: Final = (
    "setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups",
)  # fmt: skip
_PS: Final = (":", "p", "s", "Enter")


class Machine:
    """GPUs and processes, as a place wants them."""

    def __init__(self, folder: Path, state: State, held: ExitStack) -> None:
        self.state = state
        self.is_written = threading.Event()
        """Set once the driver shows it: only then may a thread change it."""
        self._folder = folder
        self._held = held

    def start(self, program: str, uid: int = 0, seconds: float = 3600.0) -> int:
        """PID of a process that is called so and waits."""
        path = self._folder / program
        if not path.exists():
            shutil.copy2("/usr/bin/sleep", path)
        # Its command line, which others show, holds no path of the machine that draws.
        words = [program, str(seconds)]
        process = subprocess.Popen(words, executable=path, user=uid, group=uid)
        self._held.callback(_end, process)
        return process.pid

    def use(self, index: int, gib: int, sm_percent: int) -> None:
        """Have a GPU as busy as its processes make it."""
        self.state.gpu(index, util_gpu=sm_percent, mem_used_bytes=gib * GIB, power_mw=390_000)
        self.state.gpm(index, 2, sm_percent)
        self.state.gpm(index, 5, sm_percent // 2)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _of_two_users(machine: Machine) -> None:
    """One of root, one of another user."""
    for index, (program, uid, gib, sm) in enumerate(
        (("train", 0, 40, 62), ("serve", ORDINARY, 24, 18))
    ):
        machine.state.process(index, machine.start(program, uid), gib * GIB, sm)
        machine.use(index, gib, sm)


def _cut(machine: Machine) -> None:
    """In two of six MIG instances somebody computes."""
    for gpu, number, place, program in ((0, 0, (1, 0), "train"), (1, 1, (5, 0), "serve")):
        pid = machine.start(program)
        machine.state.process(gpu, pid, 12 * GIB, 0, instance=place)
        machine.state.mig(gpu, number, sm_percent=55)
        # Compute instances share the memory of their GPU instance.
        for shares in (0,) if number == 0 else (1, 2):
            machine.state.mig(gpu, shares, mem_used_bytes=12 * GIB)
        machine.state.gpu(gpu, mem_used_bytes=12 * GIB, power_mw=210_000)


def _drawing(machine: Machine) -> None:
    """A desktop's server on one GPU, beside who computes there."""
    _of_two_users(machine)
    machine.state.process(0, machine.start("Xorg"), GIB // 4, 1, kind="G")
    machine.state.process(1, machine.start("renderer", ORDINARY), 2 * GIB, 9, kind="G")


def _restless(machine: Machine) -> None:
    """A thousand processes that come and go a minute, beside two that stay."""
    _of_two_users(machine)
    threading.Thread(target=_churn, args=(machine,), daemon=True).start()


def _churn(machine: Machine) -> None:
    state = machine.state
    living: list[tuple[float, subprocess.Popen[bytes]]] = []
    number = 0
    machine.is_written.wait()
    held = [int(state.values[f"gpu.{index}.mem_used_bytes"]) for index in (0, 1)]
    while True:
        now = time.monotonic()
        while living and living[0][0] < now - LIFE_S:
            _, ended = living.pop(0)
            ended.wait()
            for index in (0, 1):
                state.values.pop(f"gpu.{index}.process.{ended.pid}", None)
        process = subprocess.Popen(["sleep", str(LIFE_S)])
        living.append((now, process))
        state.process(number % 2, process.pid, GIB // 2, 3)
        number += 1
        for index in (0, 1):
            of_it = sum(f"gpu.{index}.process.{one.pid}" in state.values for _, one in living)
            state.gpu(index, mem_used_bytes=held[index] + of_it * GIB // 2)
        try:
            state.write()
        except OSError:
            return  # The picture is taken, and the folder gone.
        time.sleep(CHURN_S)


def _of_eight(machine: Machine) -> None:
    """A process on each, none of which does the same."""
    for index in range(8):
        gib, sm = 70 - 6 * index, 93 - 11 * index
        machine.state.process(index, machine.start("train"), gib * GIB, sm, sm // 2)
        machine.use(index, gib, sm)


class Place(NamedTuple):
    """Where gpumon is looked at."""

    name: str
    furnish: Callable[[Machine], None] = _of_two_users
    words: tuple[str, ...] = ()
    """What gpumon is started through."""
    keys: tuple[str, ...] = ()
    profile: str = "h100"
    second: str = ""
    """Profile of the second GPU, where it is another generation's."""
    has_driver: bool = True
    gpus: int = 2


EIGHT: Final = Place("eight", _of_eight, gpus=8)
"""Of which others are drawn as well."""

PLACES: Final = (
    EIGHT,
    Place("root"),
    Place("user", words=_WITHOUT_RIGHTS),
    Place("container", words=("unshare", "-p", "-f", "--mount-proc"), keys=_PS),
    Place(
        "hidepid", words=("unshare", "-m", "sh", "-c", _HIDING, "sh", *_WITHOUT_RIGHTS), keys=_PS
    ),
    Place("mig", _cut, profile="mig"),
    Place("graphics", _drawing),
    Place("restless", _restless),
    Place("generations", second="v100"),
    Place("without-driver", has_driver=False),
)


@contextmanager
def furnished(place: Place) -> Iterator[dict[str, str]]:
    """Environment of a machine as a place wants it."""
    with TemporaryDirectory() as name, ExitStack() as held:
        folder = Path(name)
        folder.chmod(0o755)
        if not place.has_driver:
            yield dict(os.environ)
            return
        standin = driver.start(folder / "driver", place.profile, gpus=place.gpus)
        # Others are to read it, whatever the mask of who draws.
        standin.library.parent.chmod(0o755)
        values = dict(standin.state.values)
        if place.second:
            older = PROFILES[place.second](2, None, "node2")
            values = {k: v for k, v in values.items() if not k.startswith("gpu.1.")}
            values.update((k, v) for k, v in older.items() if k.startswith("gpu.1."))
        state = State(folder / "driver", values)
        machine = Machine(folder, state, held)
        place.furnish(machine)
        state.write()
        machine.is_written.set()
        yield driver.env(standin.library, folder / "driver")


def drawn(words: tuple[str, ...], env: dict[str, str], keys: tuple[str, ...] = ()) -> str:
    """A program's picture, on a machine that is called as in the other pictures."""
    named = f'echo {_HOST} > /proc/sys/kernel/hostname; exec "$@"'
    whole = ("unshare", "-u", "-m", "sh", "-c", named, "sh")
    with TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        names = ("LD_LIBRARY_PATH", "NVML_STANDIN_STATE")
        given = {name: env[name] for name in names if name in env}
        given |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'detectors'}", "HOME": home}
        folders = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_RUNTIME_DIR")
        given |= dict.fromkeys(folders, home)
        settings = ("env", *(f"{name}={value}" for name, value in given.items()))
        command = shlex.join((*whole, *settings, *words))
        return svg(capture(command, SIZE, keys, WARM_UP_S), SIZE[0])


GPUMON: Final = (sys.executable, "-m", "gpumon", "local")


def beside() -> dict[str, tuple[str, ...]]:
    """Other programs that are here, by the names of their pictures."""
    found: dict[str, tuple[str, ...]] = {}
    nvitop = Path(peers.program("nvitop"))
    if nvitop.exists():
        found["local-nvitop"] = (str(nvitop), "--interval", "1")
    if (nvtop := shutil.which("nvtop")) is not None:
        found["local-nvtop"] = (nvtop,)
    return found


def main() -> int:
    """Draw the pictures of the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = [place.name for place in PLACES]
    parser.add_argument("--only", default="", help=f"some of {', '.join(known)}")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name] or known
    if unknown := set(only) - set(known):
        print(f"no such place: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if os.geteuid() != 0 or shutil.which("tmux") is None:
        print("namespaces and other users need root, and the pictures tmux", file=sys.stderr)
        return 1
    for place in (place for place in PLACES if place.name in only):
        with furnished(place) as env:
            _write(f"local-{place.name}", drawn((*place.words, *GPUMON), env, place.keys))
            for name, words in beside().items() if place is EIGHT else ():
                _write(name, drawn(words, env))
    return 0


def _write(name: str, image: str) -> None:
    target = IMAGES / f"{name}.svg"
    target.write_text(image, encoding="utf-8")
    print(target, flush=True)


if __name__ == "__main__":
    sys.exit(main())
