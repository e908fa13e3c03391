from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from gpumon.detect.contract import GROUP, DetectorError
from gpumon.detect.worker import registry
from gpumon.detect.worker.registry import Entry, entries, load, load_class

GOOD = """
class Good:
    name, version = "good", "1"
    finding_classes, needs = ("good",), ("temp_c",)
    supported_after_s, established_after_s = 1.0, 2.0
    def evaluate(self, view):
        return ()

class Unable(Good):
    evaluate = None

class Nameless:
    pass

class Picky(Good):
    def __init__(self, must):
        self.must = must

thing = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    monkeypatch.syspath_prepend(tmp_path)
    return write


def test_the_built_in_is_found_without_being_imported():
    code = (
        "import sys; from gpumon.detect.worker.registry import entries; "
        "e = {e.key: e for e in entries()}['partial_gpus_idle']; "
        "assert e.target == 'gpumon_detectors.idle.partial_gpus_idle:PartialGpusIdle', e; "
        "assert e.distribution.startswith('gpumon '), e; "
        "assert 'gpumon_detectors' not in sys.modules; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_distributions_with_one_name_are_told_apart(monkeypatch):
    points = [EntryPoint("x", "b:B", GROUP), EntryPoint("x", "a:A", GROUP)]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: points)
    assert [(e.key, e.target) for e in entries()] == [("x", "a:A"), ("x@", "b:B")]


def test_explicit_paths_alone():
    assert entries(["m:C"], installed=False) == (Entry("m:C", "m:C", ""),)


@pytest.mark.parametrize("target", ["os", "os:", ":C", "os:path; x", "a b:C", "-m:C"])
def test_what_is_no_path_is_refused(target):
    with pytest.raises(DetectorError, match="not MODULE:CLASS"):
        load_class(target)


def test_trouble_of_each_kind_is_one_line(module):
    name = module("plugins_for_registry", GOOD)
    module("plugin_that_exits", "import sys; sys.exit(3)")
    module("plugin_that_raises", "1 / 0")
    targets = {
        f"{name}:Good": None,
        f"{name}:Unable": "no method evaluate",
        f"{name}:Nameless": "are missing",
        f"{name}:Picky": "must",
        f"{name}:thing": "is not a class",
        f"{name}:Absent": "AttributeError",
        "plugin_that_exits:C": "SystemExit",
        "plugin_that_raises:C": "ZeroDivisionError",
        "no_such_module_at_all:C": "ModuleNotFoundError",
    }
    for entry in entries(targets, installed=False):
        words = targets[entry.target]
        if words is None:
            assert load(entry).name == "good"
            continue
        with pytest.raises(DetectorError) as raised:
            load(entry)
        assert words in str(raised.value)


def test_a_loaded_detector_is_an_instance(module):
    name = module("plugins_for_loading", GOOD)
    assert load(Entry("k", f"{name}:Good", "")).name == "good"
