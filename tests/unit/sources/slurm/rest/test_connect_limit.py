"""A server that takes no connection is given up sooner than one that thinks."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.rest.client import CONNECT_TIMEOUT_S, TIMEOUT_S, RestClient
from tests.unit.sources.slurm.restd import jwt


def test_a_connection_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def refuse(_: httpx.HTTPTransport, request: httpx.Request) -> Any:
        waits.append(request.extensions["timeout"]["connect"])
        raise httpx.ConnectTimeout("timed out", request=request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse)
    client = RestClient(RestAddress("http://127.0.0.1:6820"), environ={"SLURM_JWT": jwt()})
    with pytest.raises(CommandFailedError) as failed:
        client.get("jobs")
    assert "http://127.0.0.1:6820 cannot be reached" in failed.value.error.message
    assert failed.value.error.hint
    assert max(waits) <= CONNECT_TIMEOUT_S < TIMEOUT_S
