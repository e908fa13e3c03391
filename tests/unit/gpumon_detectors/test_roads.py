"""What a road does not bring is named: no detector is silent by exporters' pages without a word.

Every scene of every detector is told once by a probe and once by each kind of page, which holds
only the fields that such pages have. What is claimed of the first and not of the second must be of
a subject that the detector's coverage names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpumon.detect.check_scenes import seeing_scenes
from gpumon.detect.contract import declaration_of
from gpumon.detect.scene_machine import Machine, Sheet
from gpumon.detect.worker import registry
from gpumon.detect.worker.evaluate import answer_of
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.finding import Confidence
from gpumon.model.records.block import Block
from gpumon.sources.exporters.gpu_names import METRICS, SMI
from gpumon.sources.exporters.host_names import PARTS
from gpumon.sources.probes.rates import DERIVED
from tests.bench.roads import DEFAULT
from tools.sentences import block as sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpumon.detect.contract import Detector
    from gpumon.detect.view import View

EVENTS = ("xid", "event_type", "event_age_s")


def with_rates(keys: Iterable[str]) -> frozenset[str]:
    counted = set(keys)
    return frozenset(
        counted
        | {rate for rate, how in DERIVED.items() if {how.counter, how.per} - {None} <= counted}
    )


DCGM = with_rates(
    [
        *EVENTS,
        "mem_total_bytes",
        *(one.field.key for one in METRICS.values() if one.field.key in CATALOGUE),
    ]
)
BY_DEFAULT = (
    with_rates(
        [
            "mem_total_bytes",
            *(METRICS[name].field.key for name in METRICS if name.split("_", 3)[-1] in DEFAULT),
        ]
    )
    & CATALOGUE.keys()
)
HOSTS = with_rates(part.key for parts in PARTS.values() for part in parts)
ROADS = {
    "all that DCGM knows, without Xids": DCGM - {*EVENTS},
    "dcgm-exporter by default": BY_DEFAULT,
    "dcgm-exporter and node_exporter": DCGM | HOSTS,
    "nvidia_gpu_exporter": with_rates(one.field.key for one in SMI.values()),
}
LABELS_TOLD = {"gpu", "node", "nic", "filesystem", "local_filesystem"}


@pytest.fixture
def by_page(monkeypatch: pytest.MonkeyPatch) -> Callable[[frozenset[str]], None]:
    """Have scenes be told of by pages that hold these fields and no others."""
    whole, made = Sheet._block, Machine.__init__

    def narrow(told: frozenset[str]) -> None:
        def block(self: Sheet, at: float) -> Block:
            found = whole(self, at)
            columns = {key: column for key, column in found.columns.items() if key in told}
            is_told = self._name in ("gpu", "node") or bool(columns)
            if not is_told:
                return Block((), {}, {}, {})
            labels = found.labels if self._name in LABELS_TOLD else {}
            index = found.columns.get("index")
            return found._replace(
                columns=columns if index is None else {"index": index, **columns}, labels=labels
            )

        def init(self: Machine, *given: object) -> None:
            made(self, *given)
            self.is_by_page = True

        monkeypatch.setattr(Sheet, "_block", block)
        monkeypatch.setattr(Machine, "__init__", init)

    return narrow


def claims(detector: Detector, view: View) -> dict[tuple[str, str], Confidence]:
    return {
        (one.finding_class, one.subject): Confidence(one.confidence)
        for one in detector.evaluate(view)
    }


def named(detector: Detector, view: View) -> set[str]:
    """Subjects of which coverage says that they are not judged, or in part only."""
    answer = answer_of(detector, view)
    parts = [names for _, names in answer["unseen"]]
    return {*answer["blind"], *answer["declined"]}.union(*parts)


def is_named(subject: str, names: set[str], view: View) -> bool:
    """Whether it is, or one of its parts or the job that it is of."""
    whole = subject.partition("/rank:")[0]
    kind, _, name = whole.partition(":")
    around = {whole}
    if kind == "node":
        around |= {f"gpu:{uuid}" for uuid in view.nodes[name].gpu_uuids}
        around |= {job.subject for job in view.jobs_on(name)}
    elif kind == "gpu":
        around |= {job.subject for job in view.jobs_of(name)}
        around |= {f"node:{node}" for node, one in view.nodes.items() if name in one.gpu_uuids}
    return bool(around & names)


def scenes() -> Iterator[Any]:
    """Every scene of every detector; all but the first of each take a minute in all."""
    for name, some in sentences.SCENES.items():
        for scene in some:
            marks = () if scene is some[0] else (pytest.mark.slow,)
            yield pytest.param(name, scene, id=f"{name}-{scene.__name__}", marks=marks)


DETECTORS = {one.name: one for one in map(registry.load, registry.entries())}


@pytest.mark.parametrize(("name", "scene"), list(scenes()))
def test_what_a_page_does_not_bring_is_named(name, scene, by_page) -> None:
    given = sentences._PARAMETERS.get(scene, {})
    detector = type(DETECTORS[name])(**given)
    by_probe = claims(detector, scene().view())
    assert by_probe
    for road, told in ROADS.items():
        by_page(told)
        view = scene().view()
        found, names = claims(detector, view), named(detector, view)
        for (what, subject), sure in by_probe.items():
            other = found.get((what, subject))
            if other is None:
                assert is_named(subject, names, view), f"by {road}: no word of {what} of {subject}"
            else:
                assert other.rank <= sure.rank, f"by {road}: surer of {what} of {subject}"


def test_by_a_probe_that_tells_everything_nothing_is_unseen() -> None:
    for detector in DETECTORS.values():
        declared = declaration_of(detector)
        if not declared.wants:
            continue
        view = next(
            view for name, view in seeing_scenes(declared) if name == "half of the GPUs work"
        )
        answer = answer_of(detector, view)
        seen = {name for _, names in answer["unseen"] for name in names}
        # Of job 103 nobody knows the GPUs, and no control group is told of it.
        assert seen <= {"job:103"}, (detector.name, answer["unseen"])


def test_no_rule_rests_on_what_is_read_only_while_processes_are_on_screen():
    read = {key for one in DETECTORS.values() for key in (*one.needs, *getattr(one, "wants", ()))}
    assert "context_sm_util_ratio" not in read
    assert "sm_active_ratio" in read
