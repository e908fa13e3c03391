"""What is said of each trouble of the driver: by the doctor, by a table and by a document.

Nothing that a trouble is about may be called ok anywhere.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpumon.cli import main
from gpumon.cli.examined.check import ABSENT, FAULT, OK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.lab.standin.driver import Standin
    from tests.lab.standin.state import State

INIT = "nvmlInitWithFlags"
HANDLE = "nvmlDeviceGetHandleByIndex_v2"
UUID_OF = "nvmlDeviceGetUUID"
FIELDS = "nvmlDeviceGetFieldValues"
HEAT = "nvmlDeviceGetTemperature"

NO_LIBRARY = "library"
BOTH = (0, 1)


class Trouble(NamedTuple):
    """One thing that a driver does, on a node of two GPUs."""

    name: str
    make: Callable[[State], object]
    gpus: Sequence[int]
    """Which GPUs it is about."""
    says: str
    """Regular expression of what is wrong."""
    way_out: str
    """Word of the way out."""


def whole(state: State) -> None:
    """Every call waits for one that never returns."""
    state.set(hang_holds_driver=1)
    state.hang(HEAT)


def opens(code: int) -> Callable[[State], object]:
    return lambda state: state.error(INIT, code)


def gpu_opens(code: int) -> Callable[[State], object]:
    return lambda state: state.error(UUID_OF, code, gpu=1)


NEVER_OPENS = (
    Trouble(NO_LIBRARY, lambda _: None, BOTH, "Library Not Found", "libnvidia-ml.so.1"),
    Trouble("not loaded", opens(9), BOTH, "Driver Not Loaded", "modprobe nvidia"),
    Trouble("no permission", opens(4), BOTH, "Insufficient Permissions", "/dev/nvidia"),
    Trouble("mismatch", opens(18), BOTH, "version mismatch", "reboot the node"),
    Trouble("interrupts", opens(11), BOTH, "Interrupt Request Issue", "interrupts do not arrive"),
    Trouble("unknown", opens(999), BOTH, "nvmlInit: Unknown Error", "dmesg and nvidia-smi"),
    Trouble("memory", opens(20), BOTH, "Insufficient Memory", "out of memory"),
)
GPU_FAILS = (
    Trouble(
        "lost before",
        lambda state: state.lose(1, before_init=True),
        (1,),
        "GPU index 1: nvmlDeviceGetHandleByIndex: GPU is lost",
        "power-cycle",
    ),
    Trouble(
        "lost later",
        lambda state: state.error(FIELDS, 15, gpu=1),
        (1,),
        "GPU 1 GPU-.*: GPU is lost",
        "power-cycle",
    ),
    Trouble("not opened", gpu_opens(999), (1,), "GPU index 1: .*Unknown Error", "dmesg"),
    Trouble("closed", gpu_opens(4), (1,), "GPU index 1: .*Insufficient Perm", "may not use it"),
    Trouble("its interrupts", gpu_opens(11), (1,), "GPU index 1: .*Interrupt", "interrupts"),
    Trouble("its infoROM", gpu_opens(14), (1,), "GPU index 1: .*infoROM", "dmesg"),
    Trouble("its reset", gpu_opens(16), (1,), "GPU index 1: .*requires restart", "reset"),
    Trouble("none opened", lambda state: state.error(HANDLE, 999), BOTH, "GPU index 0", "dmesg"),
    Trouble(
        "a reading",
        lambda state: state.error(HEAT, 999, gpu=1),
        (1,),
        "GPU 1 GPU-.*: nvmlDeviceGetTemperature: Unknown Error",
        "may need a reset",
    ),
    Trouble(
        "a reading's memory",
        lambda state: state.error(HEAT, 20, gpu=1),
        (1,),
        "GPU 1 GPU-.*: nvmlDeviceGetTemperature: Insufficient Memory",
        "may need a reset",
    ),
)
HANGS = (
    Trouble(
        "a call",
        lambda state: state.hang(HEAT, gpu=1),
        (1,),
        "GPU 1 GPU-.*: nvmlDeviceGetTemperature has not returned for",
        "may be wedged",
    ),
    Trouble("the driver", whole, BOTH, "GPU 0 GPU-.* has not returned for", "may be wedged"),
)
SLOW = Trouble("nvmlInit", lambda state: state.hang(INIT), BOTH, "nvmlInit has not", "wedged")

CASES = [
    *(pytest.param(one, id=one.name) for one in (*NEVER_OPENS, *GPU_FAILS, *HANGS)),
    # Opening is given 8 s before it is called stuck.
    pytest.param(SLOW, id=SLOW.name, marks=pytest.mark.slow),
]


@pytest.fixture
def troubled(
    standin: Callable[..., Standin], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Trouble], None]:
    def break_it(trouble: Trouble) -> None:
        monkeypatch.setenv("COLUMNS", "160")
        node = standin("h100", gpus=2)
        trouble.make(node.state)
        node.state.write()
        if trouble.name == NO_LIBRARY:
            # In the way of a driver that this machine may have.
            (tmp_path / "libnvidia-ml.so.1").touch()
            monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    return break_it


@pytest.mark.parametrize("trouble", CASES)
def test_the_doctor_names_it_and_calls_nothing_ok_that_it_is_about(
    trouble: Trouble,
    troubled: Callable[[Trouble], None],
    capsys: pytest.CaptureFixture[str],
    said: Callable[[str], None],
) -> None:
    troubled(trouble)
    assert main(["doctor", "--json", "local"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    for what in ("driver", "local"):
        state, says, way_out = next(
            (one["state"], one["says"], one["way_out"]) for one in checks if one["what"] == what
        )
        assert state == (ABSENT if (what, trouble.name) == ("driver", NO_LIBRARY) else FAULT)
        assert re.search(trouble.says, says), says
        assert trouble.way_out in way_out
    said(f"{says}; {way_out}")
    concerned = {"driver", "local"}
    if trouble.gpus == BOTH:
        concerned |= {"GPM", "persistence"}
    assert not [one for one in checks if one["state"] == OK and one["what"] in concerned]
    # What fails of one GPU is not told as a refusal of something else.
    assert not [one for one in checks if one["what"] == "gpu processes"]


@pytest.mark.parametrize("trouble", CASES)
def test_a_table_calls_no_gpu_ok_that_it_is_about(
    trouble: Trouble,
    troubled: Callable[[Trouble], None],
    capsys: pytest.CaptureFixture[str],
    said: Callable[[str], None],
) -> None:
    troubled(trouble)
    main(["--once", "local"])
    table = capsys.readouterr().out
    listed = next((one for one in table.split("\n\n") if one.startswith("NODE ")), "NODE WHY")
    title, *rows = listed.splitlines()
    place = title.index("WHY")
    troubles = {row.split()[1]: row[place:].strip() for row in rows}
    assert [gpu for gpu in troubles if not troubles[gpu]] == [
        str(gpu) for gpu in BOTH if gpu not in trouble.gpus
    ]
    assert "✓" not in table
    line = next(line for line in table.splitlines() if re.search(trouble.says, line))
    said(line.removeprefix("✗ "))


@pytest.mark.parametrize("trouble", CASES)
def test_a_document_has_its_error_and_no_value_that_nobody_read(
    trouble: Trouble, troubled: Callable[[Trouble], None], capsys: pytest.CaptureFixture[str]
) -> None:
    troubled(trouble)
    code = main(["--json", "--for", "0", "local"])
    document = json.loads(capsys.readouterr().out)
    (target,) = document["targets"]
    told = [f"{one['where']}: {one['message']}; {one['hint']}" for one in document["errors"]]
    assert any(re.search(f"{trouble.says}.*{trouble.way_out}", line) for line in told)
    assert target["error"] is not None
    gpus = {gpu["index"]: gpu for node in document["nodes"] for gpu in node["gpus"]}
    assert [gpus[index]["temp_c"] for index in trouble.gpus if index in gpus] == [
        None for index in trouble.gpus if index in gpus
    ]
    if not gpus:
        assert (target["ok"], code) == (False, 1)
