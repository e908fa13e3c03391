"""A client for one host: made at once, and at no cost for what it does not use."""

from __future__ import annotations

import importlib
import sys

import pytest

from gpumon.sources.http import exchange


def test_what_httpcore_may_use_and_is_not_there_is_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(exchange, "find_spec", looked.append)
    monkeypatch.delitem(sys.modules, "sniffio", raising=False)
    exchange._look_once.cache_clear()
    for _ in range(3):
        exchange.client(None, {}, 1.0)
    assert looked == ["sniffio"]
    with pytest.raises(ImportError):
        importlib.import_module("sniffio")
    monkeypatch.delitem(sys.modules, "sniffio")
    exchange._look_once.cache_clear()
