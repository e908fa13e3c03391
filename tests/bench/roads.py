"""`python -m tests.bench.roads FILE`: what is said of a recording by probes and by pages alone.

The frames of the recording's nodes are written as pages of dcgm-exporter, collected every 30 s as
it does by default, and read by what reads pages; the queue stays. Both are played, and the claims
compared: the same, weaker (fewer steps of confidence), or stronger, and of what is not said at all
whether its detector said that it could not judge the subject.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.cli.request import judge_of, past_of, settings_with
from gpumon.evaluation.witness import Witness
from gpumon.fleet.replay.feed import play
from gpumon.model.records.frame import Frame
from gpumon.sources.exporters.dcgm import PageReader
from gpumon.sources.exporters.gpu_names import FREE, METRICS
from gpumon.sources.recording.source import Playback, Recording
from gpumon.sources.recording.write import RecordingWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.evaluation.witness import Account, Claim
    from gpumon.model.records.block import Block


COLLECTED_S: Final = 30.0
"""dcgm-exporter's own beat (its `--collect-interval`, 30000 ms)."""

DEFAULT: Final = (
    *("SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE"),
    *("TOTAL_ENERGY_CONSUMPTION", "PCIE_REPLAY_COUNTER", "GPU_UTIL", "MEM_COPY_UTIL"),
    *("ENC_UTIL", "DEC_UTIL", "FB_FREE", "FB_USED"),
    *("UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE"),
    *("GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE", "PCIE_TX_BYTES", "PCIE_RX_BYTES"),
)
"""What dcgm-exporter tells unless told otherwise (its default-counters.csv of 4.4, without prefix):
no SM activity among it. Xids, which a page tells as the last of each GPU, are left out."""

_STEPS: Final = ("hypothesis", "supported", "established")


class Same(NamedTuple):
    """How the claims of one class compare, by page beside by probe."""

    same: int
    weaker: int
    stronger: int
    named: int
    """Not said by page, whose detector said that it could not judge the subject."""
    absent: int
    """Not said, and nothing said of that either."""
    new: int
    """Said by page alone."""


def names_told(*, is_all: bool) -> dict[str, str]:
    """DCGM's name of each field that a page tells, by the catalogue's key."""
    found: dict[str, str] = {}
    for name, metric in METRICS.items():
        short = name.removeprefix("DCGM_FI_DEV_").removeprefix("DCGM_FI_PROF_")
        if metric.field.block == "gpu" and (is_all or short in DEFAULT):
            found.setdefault(metric.field.key, name)
    return found


def page_of(block: Block, node: str, names: Mapping[str, str]) -> bytes:
    """The GPUs of a node as dcgm-exporter would tell of them."""
    lines = []
    labels = [_labels(block, row, node) for row in range(len(block.keys))]
    for key, name in names.items():
        told = [_told(block, key, row) for row in range(len(block.keys))]
        if any(value is not None for value in told):
            lines.append(f"# TYPE {name} gauge")
            lines += [
                f"{name}{{{label}}} {value / METRICS[name].scale!r}"
                for label, value in zip(labels, told, strict=True)
                if value is not None
            ]
    return ("\n".join(lines) + "\n").encode()


def _told(block: Block, key: str, row: int) -> float | None:
    if key != FREE:
        return block.value(key, row)
    total, used = block.value("mem_total_bytes", row), block.value("mem_used_bytes", row)
    return None if total is None or used is None else total - used


def _labels(block: Block, row: int, node: str) -> str:
    minor, index = (block.value(key, row) for key in ("minor_number", "index"))
    told = {
        "gpu": None if index is None else f"{index:.0f}",
        "UUID": block.keys[row],
        "pci_bus_id": block.label("pci_bus_id", row),
        "device": None if minor is None else f"nvidia{minor:.0f}",
        "modelName": block.label("name", row),
        "Hostname": node,
    }
    return ",".join(f'{key}="{value}"' for key, value in told.items() if value is not None)


class Exporters:
    """The exporters of all nodes: each serves what it collected last."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._readers: dict[str, PageReader] = {}
        self._pages: dict[str, tuple[float, bytes]] = {}

    def frame(self, frame: Frame) -> Frame | None:
        """What is read of a node's page when its probe told a frame; None: it has no GPU."""
        block, at = frame.block("gpu"), frame.taken_at
        if not block.keys:
            return None
        url = f"dcgm+http://{frame.node}:9400/metrics"
        collected_at, page = self._pages.get(url, (-COLLECTED_S, b""))
        if at - collected_at >= COLLECTED_S:
            page = page_of(block, frame.node, self._names)
            self._pages[url] = at, page
        reader = self._readers.setdefault(url, PageReader(frame.node))
        reading = reader.read(page, at, at)[0]
        return Frame(url, frame.node, at, frame.lateness_s, reading.blocks, reading.errors)


def rewritten(recording: Recording, path: Path, names: Mapping[str, str]) -> None:
    """The recording with pages in place of probes."""
    exporters, header = Exporters(names), recording.header
    nodes = {f.node for b in Playback(recording).by_tick() for f in b.frames if f.block("gpu").keys}
    urls = [f"dcgm+http://{node}:9400/metrics" for node in sorted(nodes)]
    writer = RecordingWriter(
        path, header.started_at, header.period_s, [*recording.targets, *urls], is_forced=True
    )
    for beat in Playback(recording).by_tick():
        told = [
            frame if frame.queue is not None or not frame.blocks else exporters.frame(frame)
            for frame in beat.frames
        ]
        writer.frames([frame for frame in told if frame is not None])
        writer.end_tick(beat.at, beat.period_s)
    writer.close()


def account_of(recording: Recording) -> Account:
    """All that is said of a recording."""
    settings, witness = settings_with(), Witness()
    failure = play(
        recording, witness.take, past_of(settings), judge_of(settings), is_wanted=_always
    )
    account = witness.account()
    assert failure is None
    assert account is not None
    return account


def _always(_at: float, _is_last: bool) -> bool:
    return True


def compared(by_probe: Account, by_page: Account) -> tuple[dict[str, Same], list[str]]:
    """Per class how the claims compare, and a line about each that one road alone tells unasked."""
    probe, page = _surest(by_probe.claims), _surest(by_page.claims)
    blind = _blind(by_page)
    counts: dict[str, Counter[str]] = {}
    lines = []
    for key, claim in probe.items():
        other = page.get(key)
        if other is not None:
            rank = (other.rank > claim.rank) - (other.rank < claim.rank)
            how = ("same", "stronger", "weaker")[rank]
        elif {key[1], key[1].partition("/")[0]} & blind.get(claim.detector, set()):
            how = "named"
        else:
            how = "absent"
            lines.append(f"not by page, nor why: {_words(claim)}")
        counts.setdefault(key[0], Counter())[how] += 1
    for key in page.keys() - probe.keys():
        counts.setdefault(key[0], Counter())["new"] += 1
        lines.append(f"by page alone: {_words(page[key])}")
    return {name: Same(*(found[key] for key in Same._fields)) for name, found in counts.items()}, (
        lines
    )


def _words(claim: Claim) -> str:
    return f"{claim.finding_class} of {claim.subject}, {_STEPS[claim.rank]}"


def _surest(claims: Iterable[Claim]) -> dict[tuple[str, str], Claim]:
    found: dict[tuple[str, str], Claim] = {}
    for claim in claims:
        key = claim.finding_class, claim.subject
        if key not in found or claim.rank > found[key].rank:
            found[key] = claim
    return found


def _blind(account: Account) -> dict[str, set[str]]:
    """Subjects that each detector once said it could not judge."""
    found: dict[str, set[str]] = {}
    for _, blind in (*account.evaluations, (0.0, account.unseen)):
        for detector, subjects in blind.items():
            found.setdefault(detector, set()).update(subjects)
    return found


def main() -> None:
    """Compare the roads for each file."""
    made = argparse.ArgumentParser(prog="python -m tests.bench.roads")
    made.add_argument("files", nargs="+", type=Path)
    made.add_argument("--all", action="store_true", help="pages tell all that DCGM knows")
    options = made.parse_args()
    for file in options.files:
        recording = Recording(file)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pages.gpumon"
            rewritten(recording, path, names_told(is_all=options.all))
            found, lines = compared(account_of(recording), account_of(Recording(path)))
        print(file)
        print(f"{'class':22}" + "".join(f"{name:>10}" for name in Same._fields))
        for name, same in sorted(found.items()):
            print(f"{name:22}" + "".join(f"{count or '':>10}" for count in same))
        print(*lines, sep="\n")


if __name__ == "__main__":
    main()
