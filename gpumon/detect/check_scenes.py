"""Pasts that every detector must cope with, whatever it looks for."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

from gpumon.detect.scene import UNUSED, WORKING, Scene, Values
from gpumon.fleet.history.fields import HISTORY_KEYS
from gpumon.model.catalogue.fields import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.detect.contract import Declaration
    from gpumon.detect.view import View

_SAMPLES: Final = 60
"""Samples of the longest scenes: more cost time and show nothing new."""

_SHORTEST_S: Final = 600.0
"""A scene lasts ten minutes at least, in which windows of most detectors are full (a choice)."""

_SEED: Final = 20240229
"""Any number: scenes are the same in each run."""


def blind_scenes(declared: Declaration) -> Iterator[tuple[str, View]]:
    """Looks long enough for any claim, in which something that the detector needs is missing."""
    yield "nothing at all", _empty(declared)
    yield (
        "every needed field missing",
        _long(declared, partial(_half_without, declared.needs), declared.needs),
    )
    for key in declared.needs:
        yield f"without {key}", _long(declared, partial(_half_without, (key,)), (key,))
    yield "every GPU stale", _stale(declared)


def seeing_scenes(declared: Declaration) -> Iterator[tuple[str, View]]:
    """Looks at whole telemetry, from one sample to longer than any window that is declared."""
    dice = random.Random(_SEED)  # noqa: S311
    yield "one sample", _short(declared, 1)
    yield "a few samples", _short(declared, 4)
    yield "half of the GPUs work", _long(declared, _half)
    yield "all GPUs work", _long(declared, lambda _: _full(WORKING))
    yield "no GPU works", _long(declared, lambda _: _full(UNUSED))
    yield "smallest values", _long(declared, lambda _: {k: CATALOGUE[k].low for k in HISTORY_KEYS})
    yield "largest values", _long(declared, lambda _: {k: _most(k) for k in HISTORY_KEYS})
    yield "any values", _long(declared, lambda _: _any_values(dice))
    yield "a job that has just begun", _young(declared)


def _scene(declared: Declaration, without: tuple[str, ...] = ()) -> tuple[Scene, tuple[str, ...]]:
    """A job on two nodes, a second with one GPU, a third of whose GPUs nothing is known."""
    length_s = _length_s(declared)
    scene = Scene(period_s=length_s / _SAMPLES, span_s=2 * length_s)
    uuids = scene.node("node1", 4) + scene.node("node2", 4)
    scene.job("101", uuids[:6], cpu_count=32)
    scene.job("102", uuids[6:7], gpus_unknown=1)
    scene.job("103", (), gpus_unknown=2)
    for uuid in uuids:
        scene.link(uuid, 0, **_halfway("link", without))
    for node in ("node1", "node2"):
        scene.host(node, **_halfway("node", without))
        scene.nic(node, "mlx5_0/1", **_halfway("nic", without))
        scene.mount(node, "/scratch", **_halfway("filesystem", without))
        scene.space(node, "/dev/shm", **_halfway("local_filesystem", without))  # noqa: S108
    for job_id in ("101", "102"):
        scene.cgroup(job_id, None, **_halfway("cgroup", without))
    return scene, uuids


def _halfway(block: str, without: tuple[str, ...]) -> dict[str, float]:
    """A value for every field of a block: what an idle entity reports, half of what is bounded."""
    fields = (f for f in CATALOGUE.values() if f.block == block and f.key not in without)
    return {f.key: f.low + (f.high - f.low) / 2 if f.high <= 1 else f.low for f in fields}


def _length_s(declared: Declaration) -> float:
    """Seconds of the longest scenes; some time also where one sample proves a claim."""
    return max(_SHORTEST_S, 1.2 * declared.established_after_s)


def _empty(declared: Declaration) -> View:
    scene = Scene(period_s=_length_s(declared))
    scene.run(0, {})
    return scene.view()


def _long(
    declared: Declaration, values: Callable[[str], Values], without: tuple[str, ...] = ()
) -> View:
    scene, uuids = _scene(declared, without)
    for _ in range(_SAMPLES):
        scene.run(0, {uuid: values(uuid) for uuid in uuids})
    return scene.view()


def _short(declared: Declaration, samples: int) -> View:
    scene, uuids = _scene(declared)
    for _ in range(samples):
        scene.run(0, {uuid: _half(uuid) for uuid in uuids})
    return scene.view()


def _stale(declared: Declaration) -> View:
    scene, uuids = _scene(declared)
    for _ in range(_SAMPLES):
        scene.run(0, {uuid: _half(uuid) for uuid in uuids}, stale=uuids)
    return scene.view()


def _young(declared: Declaration) -> View:
    scene, uuids = _scene(declared)
    scene.end("101")
    for _ in range(_SAMPLES):
        scene.run(0, {uuid: _half(uuid) for uuid in uuids})
    scene.job("104", uuids[:6])
    scene.run(0, {uuid: _half(uuid) for uuid in uuids})
    return scene.view()


def _half(uuid: str) -> Values:
    """Values of a GPU that works where its index is even."""
    return _full(WORKING if int(uuid[-1]) % 2 == 0 else UNUSED)


def _full(values: Values) -> Values:
    """Every field of history; those that the example lacks are at their smallest."""
    return {**{key: CATALOGUE[key].low for key in HISTORY_KEYS}, **values}


def _half_without(keys: tuple[str, ...], uuid: str) -> Values:
    return {key: None if key in keys else value for key, value in _half(uuid).items()}


def _any_values(dice: random.Random) -> Values:
    """Values anywhere within their range, one in ten missing."""
    return {
        key: None if dice.random() < 0.1 else dice.uniform(CATALOGUE[key].low, _most(key))
        for key in HISTORY_KEYS
    }


def _most(key: str) -> float:
    """Largest value of a field that a column of 64-bit integers can hold."""
    return min(CATALOGUE[key].high, 2.0**62)
