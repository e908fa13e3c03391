"""Targets that are pages of exporters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.address import TargetError, parse
from gpumon.sources.exporter_address import PageAddress, parse_pages


@pytest.mark.parametrize(
    ("text", "url", "node", "has_name"),
    [
        ("dcgm+http://gpu01:9400/metrics", "http://gpu01:9400/metrics", "gpu01", True),
        ("dcgm+http://gpu01", "http://gpu01:9400/metrics", "gpu01", True),
        ("dcgm+http://gpu01/", "http://gpu01:9400/metrics", "gpu01", True),
        (
            "dcgm+https://gpu01.site.org:443/a/b",
            "https://gpu01.site.org:443/a/b",
            "gpu01.site.org",
            True,
        ),
        ("dcgm+http://127.0.0.1:9401", "http://127.0.0.1:9401/metrics", "127.0.0.1:9401", False),
        ("dcgm+http://localhost", "http://localhost:9400/metrics", "localhost", False),
        ("dcgm+http://[::1]:9401/metrics", "http://[::1]:9401/metrics", "[::1]:9401", False),
    ],
)
def test_a_page_is_written_as_a_url(text: str, url: str, node: str, has_name: bool) -> None:
    target = parse(text)
    assert (target.scheme, target.url) == ("exporter", text)
    assert target.pages == (PageAddress(url, node, has_name),)


@pytest.mark.parametrize(
    ("text", "where"),
    [("dcgm+http://gpu01", "gpu01"), ("dcgm+http://proxy:80/gpu01/metrics", "proxy/gpu01/metrics")],
)
def test_an_error_names_a_page_by_its_path_where_that_is_not_the_usual_one(
    text: str, where: str
) -> None:
    assert parse(text).pages[0].where == where


def test_hosts_may_be_a_hostlist() -> None:
    target = parse("dcgm+http://gpu[001-003],login:9400/metrics")
    assert [page.node for page in target.pages] == ["gpu001", "gpu002", "gpu003", "login"]
    assert target.pages[1].url == "http://gpu002:9400/metrics"


@pytest.mark.parametrize(
    "text",
    [
        "dcgm+http://",
        "dcgm+http://:9400",
        "dcgm+http://gpu01:0",
        "dcgm+http://gpu01:70000",
        "dcgm+http://gpu01:x",
        "dcgm+http://a b",
        "dcgm+http://-gpu",
        "dcgm+http://gpu[1-",
        "dcgm+http://gpu01/a?b=c",
        "dcgm+http://gpu01/a#b",
        "dcgm+http://gpu01/../x y",
        "dcgm+http://gpu01\r\nX:1",
        "dcgm+ftp://gpu01",
        "dcgm:gpu01",
    ],
)
def test_what_is_no_page_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse(text)
    assert str(caught.value).isprintable()


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(TargetError) as caught:
        parse("dcgm+http://alice:hunter2@gpu01:9400/metrics")
    assert "hunter2" not in str(caught.value)
    assert "no password" in str(caught.value)


@given(st.sampled_from(["dcgm+http", "dcgm+https"]), st.text())
def test_no_text_breaks_it(scheme: str, rest: str) -> None:
    try:
        pages = parse_pages(scheme, rest)
    except ValueError:
        return
    for page in pages:
        assert page.url.isprintable()
        assert page.url.startswith(("http://", "https://"))
