"""Targets that are servers with Prometheus' interface."""

from __future__ import annotations

import pytest

from gpumon.sources.address import TargetError, parse
from gpumon.sources.prometheus_address import EngineAddress


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("prometheus+http://mon", EngineAddress("http://mon:9090")),
        ("prometheus+http://mon:80/", EngineAddress("http://mon:80")),
        ("prometheus+https://[::1]:9091/a/b/", EngineAddress("https://[::1]:9091/a/b")),
        (
            "prometheus+http://vm:8481/select/0:1/prometheus?tenant=a%7Cb".replace("%7C", "|"),
            EngineAddress("http://vm:8481/select/0:1/prometheus", tenant="a|b"),
        ),
        (
            "prometheus+https://mon?token_file=/run/t&client_cert=/run/c.pem",
            EngineAddress("https://mon:9090", token_file="/run/t", client_cert="/run/c.pem"),
        ),
        (
            "prometheus+http://localhost?login_file=/run/l",
            EngineAddress("http://localhost:9090", login_file="/run/l"),
        ),
        (
            "prometheus+http://mon?login_file=/run/l&insecure=1",
            EngineAddress("http://mon:9090", login_file="/run/l"),
        ),
    ],
)
def test_a_server_is_written_as_a_url(text: str, address: EngineAddress) -> None:
    target = parse(text)
    assert (target.scheme, target.url, target.engine) == ("prometheus", text, address)


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("http://", "is written"),
        ("http://mon:0", "is written"),
        ("http://mon:70000", "is written"),
        ("http://a b", "is written"),
        ("http://-mon", "is written"),
        ("http://mon[1-2]", "is written"),
        ("http://mon\r\nX:1", "is written"),
        ("http://mon?token_file=t", "absolute path"),
        ("http://mon?token_file=/run/\U0010ffff", "absolute path"),
        ("http://mon?login_file=/" + "x" * 1024, "absolute path"),
        ("http://mon?tenant=a b", "tenant"),
        ("http://mon?tenant=a\r\nX:1", "tenant"),
        ("http://mon?odd=1", "not one of the options"),
        ("http://mon?insecure=2", "takes 1 or 0"),
        ("https://mon?token_file=/t&login_file=/l", "name one"),
        ("http://mon?client_cert=/c", "needs TLS"),
        ("http://mon?token_file=/t", "plain HTTP would show the secret"),
    ],
)
def test_what_is_none_says_what_is_wrong(rest: str, words: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse(f"prometheus+{rest}")
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_password_in_a_target_is_shown_to_nobody() -> None:
    with pytest.raises(TargetError) as caught:
        parse("prometheus+http://ada:hunter2@mon")
    assert "hunter2" not in str(caught.value)
    assert "?login_file=" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "history_s"),
    [("", 86400.0), ("?history=6h", 21600.0), ("?history=90m", 5400.0), ("?history=0", 0.0)],
)
def test_a_target_says_how_far_back_it_is_asked(text: str, history_s: float) -> None:
    engine = parse(f"prometheus+http://mon{text}").engine
    assert engine is not None
    assert engine.history_s == history_s


@pytest.mark.parametrize("text", ["6", "-1h", "1d", "h", "99999h"])
def test_a_past_of_another_form_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(TargetError, match="takes hours or minutes, as 6h or 90m, or 0 for none"):
        parse(f"prometheus+http://mon?history={text}")
