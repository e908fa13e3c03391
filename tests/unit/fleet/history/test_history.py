from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
from array import array
from pathlib import Path

import numpy as np
import pytest

from gpumon.detect.scene import Scene
from gpumon.fleet.history.chunk import Chunk, ChunkShape, row_bytes
from gpumon.fleet.history.fields import HISTORY_KEYS
from gpumon.fleet.history.history import History
from gpumon.fleet.history.rows import Gathering
from gpumon.model.records.block import Block
from gpumon.model.records.cluster import Gpu
from gpumon.model.records.tick import Tick

NAN = float("nan")


def block(uuids, **columns):
    return Block(tuple(uuids), {k: array("d", v) for k, v in columns.items()}, {}, {})


def gpus(*blocks, stale=()):
    return {
        uuid: Gpu(uuid, "n", b, row, 0.0, "test", uuid in stale, ())
        for b in blocks
        for row, uuid in enumerate(b.keys)
    }


def tick(at, pictured, period_s=1.0):
    return Tick(0, at, 0.0, period_s, (), {}, pictured, (), None, (), (), (), 0.0)


def history_descriptors():
    gc.collect()
    own = Path("/proc/self/fd")
    names = [str(entry.readlink()) for entry in own.iterdir() if entry.is_symlink()]
    return sum("gpumon-history" in name for name in names)


def same(got, want):
    return len(got) == len(want) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(got, want, strict=True)
    )


def test_what_changes_over_time_is_kept_and_what_names_is_not():
    kept = {"gpu_util_ratio", "power_w", "pcie_tx_bytes_per_s", "energy_j", "clock_event_reasons"}
    assert kept <= set(HISTORY_KEYS)
    assert not {"pcie_tx_bytes", "index", "uid"} & set(HISTORY_KEYS)


def test_values_come_back_by_gpu_field_and_time():
    history = History()
    for at in (10.0, 11.0, 12.0):
        history.append(
            tick(
                at,
                gpus(
                    block(["a", "b"], power_w=[at, 2 * at]),
                    block(["c"], power_w=[3 * at], temp_c=[40.0]),
                ),
            )
        )
    reader = history.reader()
    assert reader.window("b", "power_w", 11.0, 12.0) == ([11.0, 12.0], [22.0, 24.0])
    assert reader.window("c", "power_w", 0.0, 10.5) == ([10.0], [30.0])
    times, values = reader.window("a", "temp_c", 0.0, 99.0)
    assert times == [10.0, 11.0, 12.0]
    assert same(values, [NAN, NAN, NAN])


def test_fields_that_are_kept_come_in_their_places_beside_those_that_are_not():
    history = History()
    for at in (10.0, 20.0):
        history.append(tick(at, gpus(block(["a", "b"], power_w=[at, 2 * at], temp_c=[30.0, 40.0]))))
    reader = history.reader()
    slab = reader.slab(("a", "b"), ("no_such", "temp_c", "uid", "power_w"), 0.0, 20.0)
    assert np.isnan(slab.values[:, [0, 2]]).all()
    assert slab.values[:, 1].tolist() == [[30.0, 40.0]] * 2
    assert slab.values[:, 3].tolist() == [[10.0, 20.0], [20.0, 40.0]]
    assert np.isnan(reader.slab(("b",), ("no_such",), 0.0, 20.0).values).all()


def test_however_many_stretches_are_asked_for_each_has_its_own_rows():
    history = History()
    for at in range(1, 40):
        history.append(tick(float(at), gpus(block(["a"], power_w=[2.0 * at]))))
    reader = history.reader()
    asked = [(start, end) for start in range(1, 39) for end in range(start, 40)]
    for start, end in (*asked, *asked[:3]):
        times, values = reader.window("a", "power_w", float(start), float(end))
        assert times == [float(at) for at in range(start, end + 1)]
        assert values == [2.0 * at for at in range(start, end + 1)]


def test_the_cpu_time_of_a_job_is_kept_with_what_it_used_before_and_other_counters_are_not():
    scene = Scene(period_s=10.0)
    uuids = scene.node("n", 1)
    scene.job("7", uuids)
    for counted in (5_400_000_000, 5_460_000_256):
        scene.cgroup("7", job_cpu_us=counted, job_oom_kills=3)
        scene.run(10.0, {uuids[0]: {"energy_j": counted}})
    view = scene.view()
    assert view.series("n/7", "job_cpu_us", 60.0).values.tolist() == [5.4e9, 5460000256.0]
    assert view.series("n/7", "job_oom_kills", 60.0).values.tolist() == [0.0, 0.0]
    assert view.series(uuids[0], "energy_j", 60.0).values.tolist() == [0.0, 60000256.0]


def test_columns_that_come_again_unchanged_are_kept_in_each_row():
    """A probe's reader hands on the very column where a field was not told anew."""
    history = History()
    still = block(["a", "b"], power_w=[5.0, 6.0], energy_j=[100, 200])
    moved = block(["a", "b"], power_w=[7.0, 6.0], energy_j=[130, 200])
    for at, told in ((1.0, still), (2.0, still), (3.0, moved), (4.0, moved), (5.0, still)):
        history.append(tick(at, gpus(told)))
    _, power = history.reader().window("a", "power_w", 0.0, 9.0)
    assert power == [5.0, 5.0, 7.0, 7.0, 5.0]
    _, energy = history.reader().window("a", "energy_j", 0.0, 9.0)
    assert energy[:4] == [0.0, 0.0, 30.0, 30.0]


def test_only_columns_that_are_new_are_written_and_those_that_are_gone_are_blank(monkeypatch):
    written = []
    values = Gathering._values
    monkeypatch.setattr(
        Gathering, "_values", lambda self, key, *of: written.append(key) or values(self, key, *of)
    )
    history, same_power = History(), array("d", [5.0])

    def add(at, **columns):
        history.append(tick(at, gpus(Block(("a",), columns, {}, {}))))

    add(1.0, power_w=same_power, temp_c=array("d", [40.0]))
    add(2.0, power_w=same_power, temp_c=array("d", [41.0]))
    add(3.0, power_w=same_power)
    add(4.0, power_w=same_power, temp_c=array("d", [43.0]))
    assert sorted(written) == ["power_w", "temp_c", "temp_c", "temp_c"]
    _, power = history.reader().window("a", "power_w", 0.0, 9.0)
    _, heat = history.reader().window("a", "temp_c", 0.0, 9.0)
    assert list(power) == [5.0] * 4
    assert same(heat, [40.0, 41.0, NAN, 43.0])


def test_blocks_that_come_again_unchanged_are_kept_in_each_row():
    history = History()
    quiet = block(["a", "b"], power_w=[31.0, 47.0])
    for at in (5.0, 6.0, 7.0, 8.0):
        other = block(["c"], power_w=[3.0 if at < 8.0 else 9.0])
        history.append(tick(at, gpus(quiet, other if at >= 7.0 else block(["c"]))))
    reader = history.reader()
    assert reader.window("b", "power_w", 0.0, 9.0)[1] == [47.0] * 4
    assert same(reader.window("c", "power_w", 0.0, 9.0)[1], [NAN, NAN, 3.0, 9.0])


def test_gpus_that_were_told_of_by_two_nodes_may_be_told_of_by_one():
    history = History()
    history.append(tick(3.0, gpus(block(["a"], power_w=[61.0]), block(["b"], power_w=[62.0]))))
    history.append(tick(4.0, gpus(block(["a", "b"], power_w=[71.0, 72.0]))))
    reader = history.reader()
    assert reader.window("a", "power_w", 0.0, 9.0)[1] == [61.0, 71.0]
    assert reader.window("b", "power_w", 0.0, 9.0)[1] == [62.0, 72.0]


def test_rows_of_a_block_may_come_in_any_order():
    one = block(["a", "b", "c"], power_w=[1.0, 2.0, 3.0])
    pictured = gpus(one)
    history = History()
    history.append(tick(1.0, {uuid: pictured[uuid] for uuid in ("c", "a", "b")}))
    history.append(tick(2.0, pictured))
    for uuid, want in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        assert history.reader().window(uuid, "power_w", 0.0, 9.0)[1] == [want, want]


def test_a_stale_gpu_has_no_value():
    history = History()
    one = block(["a", "b"], power_w=[1.0, 2.0])
    history.append(tick(1.0, gpus(one, stale=("a",))))
    assert same(history.reader().window("a", "power_w", 0.0, 9.0)[1], [NAN])
    assert history.reader().window("b", "power_w", 0.0, 9.0)[1] == [2.0]


def test_a_gpu_that_comes_and_goes_keeps_its_past():
    history = History()
    a, b = block(["a"], power_w=[1.0]), block(["b"], power_w=[2.0])
    history.append(tick(1.0, gpus(a)))
    history.append(tick(2.0, gpus(a, b)))
    history.append(tick(3.0, gpus(b)))
    history.append(tick(4.0, gpus(a, b)))
    times, values = history.reader().window("a", "power_w", 0.0, 9.0)
    assert times == [1.0, 2.0, 3.0, 4.0]
    assert same(values, [1.0, 1.0, NAN, 1.0])
    assert same(history.reader().window("b", "power_w", 0.0, 9.0)[1], [NAN, 2.0, 2.0, 2.0])


def test_a_reader_never_sees_a_later_row():
    history = History()
    history.append(tick(1.0, gpus(block(["a"], power_w=[1.0]))))
    reader = history.reader()
    history.append(tick(2.0, gpus(block(["a"], power_w=[2.0]))))
    assert reader.window("a", "power_w", 0.0, 9.0) == ([1.0], [1.0])
    assert history.reader().window("a", "power_w", 0.0, 9.0) == ([1.0, 2.0], [1.0, 2.0])


def test_a_reader_keeps_what_the_history_has_dropped():
    history = History(span_s=10.0)
    one = gpus(block(["a"], power_w=[1.0]))
    history.append(tick(1.0, one))
    reader = history.reader()
    history.append(tick(500.0, gpus(block(["b"], power_w=[1.0]))))
    assert history.reader().first_at == 500.0
    assert reader.window("a", "power_w", 0.0, 9.0) == ([1.0], [1.0])


def test_what_is_older_than_the_span_is_dropped():
    history = History(span_s=600.0)
    for at in range(2000):
        history.append(tick(float(at), gpus(block(["a"], power_w=[1.0]))))
    first_at = history.reader().first_at
    assert 1999 - 600 - 100 <= first_at <= 1999 - 600


def test_memory_is_bounded_and_the_newest_stays():
    limit = 600 * row_bytes(("power_w",), 10, is_coarse=False)
    history = History(max_bytes=limit)
    for at in range(2000):
        history.append(tick(float(at), gpus(block(["a", "b"], power_w=[at, at]))))
        assert history.used_bytes <= limit
    fine = history.reader().spans()[-1]
    times, values = history.reader().window("a", "power_w", fine.start, 1e9)
    assert times == values == [float(at) for at in range(2000 - len(times), 2000)]
    assert len(times) >= 100


@pytest.mark.slow
def test_many_new_gpus_do_not_use_up_the_descriptors():
    history = History()
    count = history_descriptors()
    pictured = {}
    for at in range(200):
        pictured = pictured | gpus(block([f"g{at}"], power_w=[1.0]))
        history.append(tick(float(at), pictured))
    assert history_descriptors() - count <= 128


def test_close_frees_memory_once_nobody_reads():
    count = history_descriptors()
    history = History()
    history.append(tick(1.0, gpus(block(["a"], power_w=[1.0]))))
    reader = history.reader()
    history.close()
    assert reader.window("a", "power_w", 0.0, 9.0) == ([1.0], [1.0])
    assert history_descriptors() > count
    del reader
    assert history_descriptors() == count


def test_the_same_instant_is_kept_once():
    history = History()
    history.append(tick(1.0, gpus(block(["a"], power_w=[1.0]))))
    history.append(tick(1.0, gpus(block(["a"], power_w=[5.0]))))
    assert history.reader().window("a", "power_w", 0.0, 9.0) == ([1.0], [1.0])


def test_a_clock_set_back_starts_the_past_anew():
    history = History()
    history.append(tick(100.0, gpus(block(["a"], power_w=[1.0]))))
    history.append(tick(50.0, gpus(block(["a"], power_w=[2.0]))))
    assert history.reader().window("a", "power_w", 0.0, 999.0) == ([50.0], [2.0])


def test_no_gpus_make_no_row():
    history = History()
    history.append(tick(1.0, {}))
    reader = history.reader()
    assert reader.first_at is None
    assert reader.newest_at is None
    assert reader.window("a", "power_w", 0.0, 9.0) == ([], [])


def test_intervals_come_with_the_reader():
    scene = Scene()
    uuids = scene.node("n", 2)
    scene.job("7", uuids)
    pictured = scene.run(30, {})
    assert [i.uuid for i in pictured.history.intervals("7")] == list(uuids)
    assert pictured.history.intervals("8") == ()


def test_a_slab_across_chunks_fills_what_a_chunk_has_not():
    history = History()
    a, b = block(["a"], power_w=[1.0], temp_c=[9.0]), block(["b"], power_w=[2.0])
    history.append(tick(1.0, gpus(a), period_s=5.0))
    history.append(tick(2.0, gpus(a, b), period_s=7.0))
    slab = history.reader().slab(("b", "gone", "a"), ("temp_c", "power_w"), 0.0, 9.0)
    assert slab.periods.tolist() == [5.0, 7.0]
    assert np.array_equal(
        slab.values,
        [[[NAN, NAN, 9.0], [NAN, NAN, 1.0]], [[NAN, NAN, 9.0], [2.0, NAN, 1.0]]],
        equal_nan=True,
    )
    with pytest.raises(ValueError, match="read-only"):
        slab.values[0, 0, 0] = 1.0


def test_another_process_can_neither_write_nor_shrink_a_chunk():
    shape = ChunkShape(1, "gpu", 0, ("power_w",), 1, 4)
    chunk = Chunk.create(shape, ("a",))
    chunk.values[0, 0, 0] = 5.0
    other = Chunk.attach(shape, os.dup(chunk.fd))
    assert other.values[0, 0, 0] == 5.0
    with pytest.raises(ValueError, match="read-only"):
        other.values[0, 0, 0] = 1.0
    with pytest.raises(PermissionError):
        os.ftruncate(chunk.fd, 0)
    with pytest.raises(PermissionError):
        os.pwrite(chunk.fd, b"x", 0)


def test_the_history_of_a_chunk_works_without_memfd(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    history = History()
    history.append(tick(1.0, gpus(block(["a"], power_w=[1.0]))))
    assert history.reader().window("a", "power_w", 0.0, 9.0) == ([1.0], [1.0])
    assert list(Path(tmp_path).iterdir()) == []


def test_numpy_is_loaded_with_the_first_row_and_no_earlier():
    code = (
        "import sys; from gpumon.fleet.history.history import History; h = History(); "
        "assert 'numpy' not in sys.modules; h.close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_where_nobody_tells_who_only_draws_every_process_computes():
    history = History()
    old = block(["a", "b"], process_count=[3.0, NAN])
    new = block(["c", "d"], process_count=[5.0, 2.0], compute_process_count=[4.0, NAN])
    history.append(tick(0.0, gpus(old, new)))
    keys = ("compute_process_count", "process_count")
    found = history.reader().newest(["a", "b", "c", "d"], keys)
    assert same(found[0], [3.0, NAN, 4.0, NAN])
    assert same(found[1], [3.0, NAN, 5.0, 2.0])
