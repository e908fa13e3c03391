"""What the kernel has of the GPUs that the driver was given, also of those that NVML cannot open.

/proc/driver/nvidia/gpus/BUS_ID/information names model, UUID, bus location and minor number. A UUID
that the driver could not read has question marks in it.
"""

from typing import Dict, List, NamedTuple, Optional

from gpumon.probe.kernel import files
from gpumon.probe.kernel.pci import normal
from gpumon.probe.rows import Row

OPEN_ERROR = "open_error"
FOLDER = "/proc/driver/nvidia/gpus"
MOST = 64
"""GPUs of one node: four times what any has."""
MOST_BYTES = 4096
"""Of one file: the driver writes some 500."""


class Board(NamedTuple):
    """One GPU as the kernel module knows it."""

    bus_id: str
    uuid: str
    """Empty where the module could not read it."""
    minor_number: Optional[int]
    name: str


def boards(root: str) -> List[Board]:
    """The GPUs that NVML counts, in its order, which is that of their bus ids."""
    found = []
    for bus_id in files.names(root + FOLDER, MOST):
        text = files.read_or_empty("%s%s/%s/information" % (root, FOLDER, bus_id), MOST_BYTES)
        pairs = _pairs(text)
        if normal(bus_id) and pairs.get("GPU Excluded") != "Yes":
            uuid = pairs.get("GPU UUID", "")
            found.append(
                Board(
                    normal(bus_id),
                    "" if "?" in uuid else uuid,
                    _number(pairs.get("Device Minor", "")),
                    pairs.get("Model", ""),
                )
            )
    return sorted(found)


def name_unopened(gpus: List[Row], known_boards: List[Board]) -> None:
    """Give GPUs that NVML counts and does not open what the kernel module knows of them.

    NVML numbers GPUs by their bus ids; where it counts another number of them than the module, the
    boards count that no GPU claims which is open. An open GPU without a bus id may be any of the
    boards: then nothing is given.
    """
    closed = [gpu for gpu in gpus if gpu.values.get(OPEN_ERROR)]
    opened = {normal(g.labels.get("pci_bus_id", "")) for g in gpus if not g.values.get(OPEN_ERROR)}
    if not closed or "" in opened:
        return
    rest = [board for board in known_boards if board.bus_id not in opened]
    known = {gpu.key for gpu in gpus}
    for gpu, board in zip(sorted(closed, key=_index), rest):
        if board.uuid and board.uuid not in known:
            gpu.key = board.uuid
        labels = {"pci_bus_id": board.bus_id, "name": board.name}
        gpu.labels.update({label: text for label, text in labels.items() if text})
        if board.minor_number is not None:
            gpu.values["minor_number"] = board.minor_number
        for key in (*gpu.labels, *gpu.values):
            gpu.missing.pop(key, None)


def _index(gpu: Row) -> float:
    return gpu.values["index"]


def _pairs(text: str) -> Dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _number(text: str) -> Optional[int]:
    try:
        return files.whole(text)
    except ValueError:
        return None
