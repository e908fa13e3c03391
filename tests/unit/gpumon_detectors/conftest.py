"""Of the pairs of a period and a trouble every second one runs, as on a chessboard."""

from __future__ import annotations

import pytest

from tests.unit.gpumon_detectors.noise import of_one_colour

_PAIR = ("period_s", "trouble")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves half of the slow pairs to a run that asks for all of them."""
    if config.getoption("every"):
        return
    left = set()
    for scene, pairs in _scenes(items).items():
        run = of_one_colour(scene, [*pairs.values()])
        for item, is_run in zip(pairs, run, strict=True):
            if not is_run and item.get_closest_marker("slow"):
                left.add(item)
    if left:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=list(left))


def _scenes(items: list[pytest.Item]) -> dict[str, dict[pytest.Item, tuple[float, str]]]:
    """By scene its tests with their pairs."""
    scenes: dict[str, dict[pytest.Item, tuple[float, str]]] = {}
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if params.keys() >= {*_PAIR}:
            others = sorted((key, str(value)) for key, value in params.items() if key not in _PAIR)
            scene = f"{item.nodeid.partition('[')[0]}{others}"
            scenes.setdefault(scene, {})[item] = (params["period_s"], params["trouble"])
    return scenes
