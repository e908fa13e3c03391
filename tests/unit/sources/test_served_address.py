"""Where another gpumon serves."""

from __future__ import annotations

import pytest

from gpumon.sources.address import TargetError, parse
from gpumon.sources.served_address import ServedAddress


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("gpumon+http://login1", ServedAddress("login1")),
        ("gpumon+http://127.0.0.1:80/", ServedAddress("127.0.0.1", 80)),
        ("gpumon+http://[::1]:80", ServedAddress("::1", 80)),
        (
            "gpumon+https://login1:1?token_file=/t",
            ServedAddress("login1", 1, is_encrypted=True, token_file="/t"),
        ),
        ("gpumon+http://localhost?token_file=/t", ServedAddress("localhost", token_file="/t")),
        ("gpumon+unix:///run/s", ServedAddress("localhost", path="/run/s")),
    ],
)
def test_a_server_is_named(url: str, address: ServedAddress) -> None:
    assert (parse(url).scheme, parse(url).served) == ("served", address)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gpumon+http://", "is written gpumon\\+http://host\\[:9777\\]"),
        ("gpumon+http://a:0", "is written"),
        ("gpumon+http://a/v1/frames", "is written"),
        ("gpumon+http://a b", "is written"),
        ("gpumon+http://a?x=1", "token_file= with an absolute path, nothing else"),
        ("gpumon+http://a?token_file=t", "absolute path"),
        ("gpumon+http://a?token_file=/t", "plain HTTP would show the token"),
        ("gpumon+unix://s", "gpumon\\+unix:///path/to/socket"),
    ],
)
def test_what_names_none_is_said_in_one_line(url: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        parse(url)


def test_a_password_that_was_written_by_mistake_is_not_repeated() -> None:
    with pytest.raises(TargetError) as error:
        parse("gpumon+http://me:secret@host")
    assert "secret" not in str(error.value)
