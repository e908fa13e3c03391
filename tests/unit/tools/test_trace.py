"""What happens in a scene, drawn as lines of text."""

from __future__ import annotations

from gpumon.detect.scene import Scene
from gpumon.model.finding import Confidence, Evidence, Severity, Window
from tools.sentences.trace import trace_of


class Claimant:
    """Enough of a detector to claim with."""

    name = "made_up"
    version = "1"
    finding_classes = ("idle_held",)
    supported_after_s = 60.0
    established_after_s = 120.0


def drawn(values, *, subject="job:7", field="gpu_util_ratio", gpus=2, window_s=600.0):
    scene = Scene(10.0)
    uuids = scene.node("n1", gpus)
    scene.job("7", uuids)
    scene.run(1200.0, {uuid: values(place) for place, uuid in enumerate(uuids)})
    view = scene.view()
    finding = view.finding(
        Claimant(),
        subject=subject,
        severity=Severity.WARNING,
        summary="",
        window=Window(view.now - window_s, view.now, 60),
        evidence=(Evidence(field, subject, "so"),),
        at_most=Confidence.HYPOTHESIS,
    )
    return trace_of(view, finding)


def test_a_curve_falls_where_the_work_ends_and_the_window_is_marked():
    """Work for ten minutes, then none."""
    lines = drawn(lambda _: {"gpu_util_ratio": lambda s: 1.0 if s < 600 else 0.0}).splitlines()
    title, curve = lines[0].split("  ")[:2]
    assert title == "UTIL"
    assert lines[0].endswith("0 to 100 %")
    # A third of the window's length before it, of what is shown three thirteenths.
    assert curve.count("█") in range(11, 16)
    assert curve.count("▁") == 56 - curve.count("█")
    mark = lines[1].index("^") - lines[0].index(curve)
    assert abs(mark - curve.count("█")) <= 1


def test_gpus_that_differ_have_a_line_for_the_highest_and_the_lowest():
    lines = drawn(lambda place: {"gpu_util_ratio": float(place)}).splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:2]] == [
        "UTIL, highest GPU",
        "UTIL, lowest GPU",
    ]
    assert "█" * 50 in lines[0]
    assert "▁" * 50 in lines[1]


def test_what_is_not_known_is_a_point_and_no_zero():
    lines = drawn(
        lambda _: {"gpu_util_ratio": lambda s: None if 700 <= s < 900 else 0.5, "power_w": 300.0}
    ).splitlines()
    assert "·" * 8 in lines[0]
    assert "▁" not in lines[0]
    assert lines[1].endswith("0 to 300 W")


def test_of_a_node_or_of_what_nobody_tells_nothing_is_drawn():
    assert drawn(lambda _: {"gpu_util_ratio": 1.0}, subject="node:n1") == ""
    assert drawn(lambda _: {}) == ""


def test_what_shows_in_an_instant_is_drawn_with_what_was_before():
    lines = drawn(lambda _: {"gpu_util_ratio": 1.0}, window_s=0.0).splitlines()
    assert "█" * 50 in lines[0]
