"""Asyncio without TLS, and TLS given back to it."""

from __future__ import annotations

import subprocess
import sys

IMPORTED = """
import sys
from gpumon.base.loop_tls import give_back_tls, import_asyncio_without_tls
{first}
import_asyncio_without_tls()
import asyncio
print("ssl" in sys.modules, "_ssl" in sys.modules)

import ssl
{then}
async def protocol():
    loop = asyncio.get_running_loop()
    return asyncio.sslproto.SSLProtocol(loop, asyncio.Protocol(), context, None)

context = ssl.create_default_context()
try:
    print(type(asyncio.run(protocol())).__name__)
except RuntimeError as error:
    print(error)
events = (asyncio.base_events, asyncio.selector_events)
print(*[module.ssl is ssl for module in events], hasattr(asyncio.sslproto, "SSLAgainErrors"))
"""


def told(first: str = "", then: str = "") -> list[str]:
    """What a Python says of its modules, and of an attempt to speak TLS in its loop."""
    command = [sys.executable, "-c", IMPORTED.format(first=first, then=then)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout.splitlines()


def test_asyncio_is_imported_alone_and_ssl_can_be_imported_afterwards() -> None:
    modules, failure, *_ = told()
    assert modules == "False False"
    assert "ssl" in failure


def test_tls_that_is_given_back_is_that_of_any_asyncio() -> None:
    assert told(then="give_back_tls()")[1:] == ["SSLProtocol", "True True True"]


def test_an_http_source_of_the_same_process_gets_it_back() -> None:
    then = "from gpumon.sources.http.loop import LoopThread; LoopThread('http', None)"
    assert told(then=then)[1:] == ["SSLProtocol", "True True True"]


def test_what_is_there_already_is_left_alone() -> None:
    for first in ("import asyncio", "import ssl"):
        assert told(first=first) == ["True True", "SSLProtocol", "True True True"]
