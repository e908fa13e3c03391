"""Texts cut and wrapped to a width, of any characters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from gpumon.report.text.cells import fit, wrap

# Fitting


@settings(derandomize=True)
@given(st.text(max_size=40), st.integers(min_value=1, max_value=30))
def test_fitted_text_is_exact_and_holds_no_controls(text, width):
    for align in ("left", "right"):
        drawn = fit(text, width, align)
        assert all(char.isprintable() for char in drawn)
        assert len(drawn) <= width


@pytest.mark.parametrize("text", ["日本語の名前", "naïve café", "e\u0301tude", "❤️x", "plain"])
def test_fitted_text_is_as_wide_as_terminals_draw_it(text):
    for width in range(1, 14):
        assert cell_len(fit(text, width)) == width


def test_what_was_cut_is_marked():
    assert fit("pretrain-7b", 8) == "pretrai…"
    assert fit("日本語", 4) == "日… "
    assert fit("ab", 4, "right") == "  ab"


@settings(derandomize=True)
@given(st.text(max_size=120), st.integers(min_value=12, max_value=40))
def test_wrapped_lines_never_exceed_the_width(text, width):
    for line in wrap(text, width, "! ", "  "):
        assert cell_len(line) <= width
