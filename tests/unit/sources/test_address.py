"""Targets as people type them, and as somebody types them who means harm."""

from __future__ import annotations

import pytest

from gpumon.sources.address import (
    DEMO_SIZE,
    ENGINE_SCHEMES,
    KINDS,
    PAGE_SCHEMES,
    Kind,
    Target,
    TargetError,
    parse,
    rank_of,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local", Target("local", "local")),
        ("slurm", Target("slurm", "slurm", nodes_by="ssh,srun")),
        ("slurm?nodes=srun", Target("slurm?nodes=srun", "slurm", nodes_by="srun")),
        (
            "slurm+ssh://ada@login:2200?nodes=none",
            Target(
                "slurm+ssh://ada@login:2200?nodes=none",
                "slurm",
                ("login",),
                "ada",
                2200,
                nodes_by="none",
            ),
        ),
        ("slurm?nodes=none", Target("slurm?nodes=none", "slurm", nodes_by="none")),
        ("slurm?cluster=North-2", Target("slurm?cluster=North-2", "slurm", cluster="north-2")),
        (
            "slurm+ssh://login?cluster=b&nodes=none",
            Target(
                "slurm+ssh://login?cluster=b&nodes=none",
                "slurm",
                ("login",),
                nodes_by="none",
                cluster="b",
            ),
        ),
        ("ssh://gpu01", Target("ssh://gpu01", "ssh", ("gpu01",))),
        ("ssh://gpu01/", Target("ssh://gpu01/", "ssh", ("gpu01",))),
        (
            "ssh://ada@gpu[01-03]:2222",
            Target("ssh://ada@gpu[01-03]:2222", "ssh", ("gpu01", "gpu02", "gpu03"), "ada", 2222),
        ),
        ("ssh://a,b", Target("ssh://a,b", "ssh", ("a", "b"))),
        (
            "ssh://ada@corp.org@gpu01",
            Target("ssh://ada@corp.org@gpu01", "ssh", ("gpu01",), "ada@corp.org"),
        ),
        ("ssh://10.0.0.1:22", Target("ssh://10.0.0.1:22", "ssh", ("10.0.0.1",), port=22)),
        ("./x.gpumon", Target("./x.gpumon", "recording", path="./x.gpumon")),
        ("./demo", Target("./demo", "recording", path="./demo")),
        ("x.gpumon.zst", Target("x.gpumon.zst", "recording", path="x.gpumon.zst")),
        ("demo", Target("demo", "demo", demo_size=DEMO_SIZE, seed=1)),
        ("demo:2x4?seed=7", Target("demo:2x4?seed=7", "demo", demo_size=(2, 4), seed=7)),
    ],
)
def test_what_people_type(text: str, expected: Target) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "local?x=1",
        "LOCAL",
        "local\n",
        "ssh://",
        "ssh:///",
        "ssh://-oProxyCommand=x",
        "ssh://ada@-oProxyCommand=x",
        "ssh://-l@gpu01",
        "ssh://@-gpu01",
        "ssh://gpu01;reboot",
        "ssh://gpu01 reboot",
        "ssh://gpu01\nreboot",
        "ssh://gpu01\n",
        "ssh://$(reboot)",
        "ssh://`reboot`",
        "ssh://gpu01|x",
        "ssh://gpu01&",
        "ssh://gpu'01",
        "ssh://../x",
        "ssh://gpu01/x",
        "ssh://gpu[01-",
        "ssh://gpu[3-1]",
        "ssh://gpu[1-999999]",
        "ssh://a,-b",
        "ssh://a,,b;c",
        "ssh://gpu01:0",
        "ssh://gpu01:65536",
        "ssh://gpu01:99999",
        "ssh://gpu01:-1",
        "ssh://gpu01:",
        "ssh://a b@gpu01",
        "ssh://a$b@gpu01",
        "ssh://" + "a" * 65 + "@gpu01",
        "ssh://" + "a" * 300,
        "slurm?nodes=telnet",
        "slurm?cluster=",
        "slurm?cluster=-M",
        "slurm?cluster=a,b",
        "slurm?cluster=a;reboot",
        "slurm+unix:///run/rest.sock?cluster=b",
        "slurm?nodes=ssh,telnet",
        "slurm?nodes=ssh,ssh",
        "slurm+ssh://",
        "slurm+ssh://a,b",
        "slurm+ssh://-oProxyCommand=x",
        "slurm+ssh://login;reboot",
        "slurm+ssh://fe80::1%eth0",
        "slurm+ssh://login?nodes=x",
        "slurm?user=x",
        "slurm?nodes",
        "demo:0x8",
        "demo:2x0",
        "demo:x",
        "demo:-1x8",
        "demo:2x8x3",
        "demo?seed=",
        "demo?seed=-1",
        "demo?seed=1.5",
        "demo?seed=" + "9" * 5000,
        "demo?x=1",
        "http://gpu01",
        "@file",
    ],
)
def test_what_is_no_target_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_a_demo_that_would_not_come_up_is_refused() -> None:
    assert parse("demo:16384x8").demo_size == (16384, 8)
    for size in ("16385x8", "512x257", "99999x999"):
        with pytest.raises(TargetError, match="at most 131,072 GPUs"):
            parse(f"demo:{size}")


def test_what_a_target_is_called_carries_no_escapes() -> None:
    with pytest.raises(TargetError) as caught:
        parse("\x1b[31mred\u202e")
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


EXAMPLES = {
    "local": "local",
    "slurm": "slurm",
    "ssh": "ssh://gpu7",
    "exporter": "dcgm+http://gpu7",
    "prometheus": "prometheus+https://mon",
    "served": "gpumon+http://login7",
    "demo": "demo:2x4",
    "recording": "./a.gpumon",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_each_kind_of_target_is_written_as_its_row_says(name: str, kind: Kind) -> None:
    target = parse(EXAMPLES[name])
    assert (target.scheme, target.kind) == (name, kind)
    assert rank_of(target.url) == kind.rank
    with pytest.raises(TargetError) as error:
        parse("elsewhere")
    assert kind.forms in str(error.value)


def test_a_probe_is_better_than_a_page_and_a_page_than_a_server() -> None:
    worse = {scheme: rank_of(f"{scheme}://a:9") for scheme in (*PAGE_SCHEMES, *ENGINE_SCHEMES)}
    assert worse == {**dict.fromkeys(PAGE_SCHEMES, 1), **dict.fromkeys(ENGINE_SCHEMES, 0)}
    assert {rank_of(url) for url in ("local", "ssh://a", "slurm")} == {2}
