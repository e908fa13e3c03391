"""The digits that the pages tell people to press open the views that are meant."""

from __future__ import annotations

import pytest

from gpumon.tui.actions.action import ROOTS
from tools.screenshots import ROOT


@pytest.mark.parametrize(
    ("page", "line", "view"),
    [
        ("README.md", "| why does my job wait? ", "pending"),
        ("README.md", "| what did the fleet do ten minutes ago? ", "fleet"),
        ("docs/index.md", "| why a job waits ", "pending"),
        ("docs/index.md", "| which job wastes most; which user ", "users"),
        ("docs/index.md", "| the whole fleet, ten minutes ago ", "fleet"),
        ("docs/index.md", "| your jobs that compute on many GPUs ", "jobs"),
        ("docs/screens-machines.md", "Every node that a target or the queue names", "nodes"),
        ("docs/screens-machines.md", "The whole cluster on one screen", "fleet"),
    ],
)
def test_a_page_names_the_digit_of_the_view(page: str, line: str, view: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    (told,) = (each for each in lines if each.startswith(line))
    digits = [key for key in told.split("`") if key.isdigit()]
    views: tuple[str, ...] = ROOTS
    digit = str(views.index(view) + 1)
    assert digits[0] == digit if line.startswith("|") else digit in digits
