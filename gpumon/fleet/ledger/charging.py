"""What of a finding's loss is wasted and what suspected."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from gpumon.model.finding import Confidence

if TYPE_CHECKING:
    from gpumon.model.finding import Finding

LEAST_PRECISION: Final = 0.95
"""What a learned class must have reached on a recording from other hands."""


def is_suspected(finding: Finding) -> bool:
    """Whether its loss is suspected: a hypothesis, or learned and of no class that is proven."""
    if finding.confidence is Confidence.HYPOTHESIS:
        return True
    return finding.is_learned and finding.finding_class not in proven()


@cache
def proven() -> frozenset[str]:
    """Classes of which learned verdicts are charged as wasted, as `charging.toml` lists them."""
    # A single look judges nothing, and must not wait for what reads files.
    from importlib.resources import files

    return proven_in(files(__package__).joinpath("charging.toml").read_text(encoding="utf-8"))


def proven_in(text: str) -> frozenset[str]:
    """Classes that a text in the form of `charging.toml` lists.

    Raises:
        ValueError: One of them does not say where it was shown, or was not right often enough.
    """
    import tomllib

    listed = tomllib.loads(text)
    for key, shown in listed.items():
        has_names = all(isinstance(shown.get(name), str) for name in ("recording", "author"))
        if not has_names or not shown.get("precision", 0.0) >= LEAST_PRECISION:
            raise ValueError(f"charging.toml: {key} lacks recording, author or precision")
    return frozenset(listed)
