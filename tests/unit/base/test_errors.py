"""The tree of errors: one line for a person, with the way out."""

from __future__ import annotations

import pytest

from gpumon.base.errors import DeclinedError, GpumonError, UnavailableError


def test_an_error_is_told_in_one_line_with_the_way_out() -> None:
    assert UnavailableError("nobody answers", "ask again").lines == ("nobody answers (ask again)",)
    assert DeclinedError("it is not yours").lines == ("it is not yours",)


@pytest.mark.parametrize("error", [UnavailableError("x", "y"), DeclinedError("x")])
def test_every_branch_is_of_the_tree_and_says_its_message(error: GpumonError) -> None:
    assert isinstance(error, GpumonError)
    assert (error.message, str(error)) == ("x", "x")
