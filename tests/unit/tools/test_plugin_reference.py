"""Authors of detectors read every public name that they may use, in the words of its docstring."""

from __future__ import annotations

import gpumon.plugin
from gpumon.detect.view import JobLook, View
from gpumon.plugin.testing import Scene
from tools import plugin_reference


def test_every_name_that_is_offered_has_a_line_and_a_sentence() -> None:
    lines = plugin_reference.offered().splitlines()
    assert {line.split("`")[1] for line in lines} == set(gpumon.plugin.__all__)
    assert [line for line in lines if not line.endswith(".")] == []


def test_methods_and_properties_are_all_there_with_their_parameters() -> None:
    for kind, text, name in (
        (View, plugin_reference.view(), "view"),
        (JobLook, plugin_reference.job(), "job"),
        (Scene, plugin_reference.scene(), "scene"),
    ):
        listed = {line.split("`")[1].partition("(")[0] for line in text.splitlines()}
        public = {f"{name}.{key}" for key in vars(kind) if not key.startswith("_")}
        assert public - listed == set()
    assert "- `view.table(entities, keys, seconds, since)`: " in plugin_reference.view()
    assert "- `job.subject`: How a finding names this job.\n" in plugin_reference.job()


def test_what_an_instance_is_given_at_its_start_is_there() -> None:
    assert "- `view.now`: " in plugin_reference.view()
    assert "- `job.ranks`: " in plugin_reference.job()
