from __future__ import annotations

import numpy as np

from gpumon.detect.scene import START_AT, WORKING, Scene
from gpumon.fleet.history.windows import held, job_slab
from gpumon.model.records.cluster import Rank
from gpumon.model.records.tick import Interval


def test_a_job_s_window_holds_its_gpus_only_while_it_held_them():
    scene = Scene(period_s=10.0)
    a, b = scene.node("n", 2)
    scene.job("1", (a, b))
    scene.run(50, {a: WORKING, b: WORKING})
    scene.end("1")
    scene.job("2", (a,))
    scene.run(30, {a: WORKING})
    scene.job("2", (a, b))
    history = scene.run(20, {a: WORKING, b: WORKING}).history
    start, end = START_AT, START_AT + 95
    assert {i.uuid for i in held(history, "1", start, end)} == {a, b}
    uuids, slab = job_slab(history, "2", ("power_w",), start, end)
    assert uuids == (a, b)
    assert slab.times[0] == START_AT + 50
    assert np.isfinite(slab.values[:, 0, 0]).all()
    assert np.isfinite(slab.values[:, 0, 1]).tolist() == [False] * 3 + [True] * 2
    _, before = job_slab(history, "1", ("power_w",), start, end)
    finite = np.isfinite(before.values[:, 0, :])
    assert finite.sum() == 10
    assert before.times[finite.all(axis=1)].max() == START_AT + 40


def test_an_unknown_job_has_no_window():
    scene = Scene()
    scene.node("n", 1)
    history = scene.run(20, {}).history
    uuids, slab = job_slab(history, "9", ("power_w",), 0.0, 2e9)
    assert uuids == ()
    assert slab.values.size == 0


def test_stretches_are_cut_to_the_window():
    scene = Scene(period_s=10.0)
    (a,) = scene.node("n", 1)
    scene.job("1", (a,))
    history = scene.run(100, {a: WORKING}).history
    cut = held(history, "1", START_AT + 20, START_AT + 30)
    assert cut == (Interval(a, START_AT + 20, START_AT + 30),)


def rank(number, uuid, world="w", program="python3"):
    return Rank("0", world, number, 0, 4, "n", 100, (uuid,), None, program)
