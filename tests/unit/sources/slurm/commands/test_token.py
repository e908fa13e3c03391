"""Tokens: where they come from, who may read them, what they say; and where they may not go."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.address import Target, TargetError, parse
from gpumon.sources.rest_address import RestAddress, parse_address
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.commands.token import MAX_BYTES, asker, read_token
from tests.unit.sources.slurm.restd import EXPIRES_AT, jwt

if TYPE_CHECKING:
    from collections.abc import Callable


def refusal(token_file: str, environ: dict[str, str]) -> str:
    with pytest.raises(CommandFailedError) as caught:
        read_token(token_file, environ)
    return caught.value.error.message


def test_a_token_says_whom_it_speaks_for_and_until_when() -> None:
    token = read_token("", {"SLURM_JWT": jwt("bob")})
    assert token is not None
    assert (token.secret, token.user, token.expires_at) == (jwt("bob"), "bob", EXPIRES_AT)


@pytest.mark.parametrize("secret", ["opaque", "a.b.c", "a.bm90IGpzb24.c", "a.W10.c"])
def test_a_token_that_says_nothing_speaks_for_this_user(secret: str) -> None:
    token = read_token("", {"SLURM_JWT": secret})
    assert token is not None
    assert token.user == pwd.getpwuid(os.geteuid()).pw_name
    assert token.expires_at is None


def test_a_hostile_claim_does_not_become_a_header() -> None:
    token = read_token("", {"SLURM_JWT": jwt("a\r\nX-Other: 1")})
    assert token is not None
    assert token.user == pwd.getpwuid(os.geteuid()).pw_name


def test_no_token_is_no_error_here() -> None:
    assert read_token("", {}) is None
    assert read_token("", {"SLURM_JWT": " "}) is None


def test_a_file_is_read_as_scontrol_prints_it_and_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for user in ("alice", "bob"):
        file.write_text(f"SLURM_JWT={jwt(user)}\n")
        file.chmod(0o600)
        token = read_token(str(file), {"SLURM_JWT": "other"})
        assert token is not None
        assert token.user == user


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_touch_is_refused(
    tmp_path: Path, mode: int, said: Callable[..., None]
) -> None:
    file = tmp_path / "token"
    file.write_text(jwt())
    file.chmod(mode)
    assert "is open to others" in refusal(str(file), {})
    said(refusal(str(file), {}))


def test_a_file_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(str(tmp_path / "none"), {})
    assert "not a regular file" in refusal(str(tmp_path), {})
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "not a regular file" in refusal(str(tmp_path / "pipe"), {})


@pytest.mark.parametrize("text", ["two words", "a\nX-Other: 1", "ä", "", "a" * 9000])
def test_what_cannot_be_a_token_is_refused_unseen(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    assert refusal(str(file), {}) == f"the token file {file} holds no token"


def test_a_token_is_not_printed() -> None:
    token = read_token("", {"SLURM_JWT": jwt()})
    assert jwt() not in repr(token)
    assert jwt() not in f"{token}"


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        token = read_token("", {"SLURM_JWT": text})
    except CommandFailedError:
        return
    assert token is None or token.secret.isascii()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slurm+http://localhost", RestAddress("http://localhost:6820")),
        ("slurm+http://127.0.0.9:80/", RestAddress("http://127.0.0.9:80")),
        ("slurm+http://[::1]", RestAddress("http://[::1]:6820")),
        ("slurm+http://head?insecure=1", RestAddress("http://head:6820")),
        ("slurm+https://head.site.org", RestAddress("https://head.site.org:6820")),
        ("slurm+https://head:443/api/slurm", RestAddress("https://head:443/api/slurm")),
        ("slurm+https://[fe80::1]:1", RestAddress("https://[fe80::1]:1")),
        (
            "slurm+unix:///run/slurmrestd/rest.sock",
            RestAddress("http://slurmrestd", "/run/slurmrestd/rest.sock"),
        ),
        (
            "slurm+https://head?token_file=/home/a/t&nodes=none",
            RestAddress("https://head:6820", "", "/home/a/t"),
        ),
    ],
)
def test_what_people_type(text: str, expected: RestAddress) -> None:
    nodes_by = "none" if "nodes=none" in text else parse("slurm").nodes_by
    assert parse(text) == Target(text, "slurm", nodes_by=nodes_by, rest=expected)


@pytest.mark.parametrize(
    "host", ["head", "10.0.0.1", "localhost.evil.org", "127.evil.org", "[::2]"]
)
def test_plain_http_beyond_this_machine_is_refused_with_the_reason(host: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse(f"slurm+http://{host}:6820")
    assert "would show the token to everyone on the way" in str(caught.value)
    assert "slurm+https://" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "slurm+http://",
        "slurm+http://:6820",
        "slurm+https://head:0",
        "slurm+https://head:70000",
        "slurm+https://head:x",
        "slurm+https://a b",
        "slurm+https://-head",
        "slurm+https://head/../x y",
        "slurm+https://head\r\nX:1",
        "slurm+https://head?token=secret",
        "slurm+https://head?token_file=relative",
        "slurm+http://head?insecure=yes",
        "slurm+unix://rest.sock",
        "slurm+unix:///run/\x1b",
        "slurm+ftp://head",
    ],
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse(text)
    assert str(caught.value).isprintable()


def test_a_password_typed_by_mistake_is_not_repeated() -> None:
    with pytest.raises(TargetError) as caught:
        parse("slurm+https://alice:hunter2@head")
    assert "hunter2" not in str(caught.value)


@given(st.sampled_from(["slurm+http", "slurm+https", "slurm+unix"]), st.text(), st.text())
def test_no_text_breaks_the_address(scheme: str, rest: str, file: str) -> None:
    try:
        found = parse_address(scheme, rest, {"token_file": file})
    except ValueError:
        return
    assert found.base_url.isprintable()
    assert Path(found.token_file or "/").is_absolute()


def test_a_file_that_is_too_long_for_a_token_is_refused(tmp_path: Path) -> None:
    """What lies behind its first bytes may make no token of it."""
    file = tmp_path / "token"
    for blanks, is_token in ((MAX_BYTES - 10, True), (MAX_BYTES + 10, False)):
        file.write_text("abcd" + " " * blanks)
        file.chmod(0o600)
        if is_token:
            assert read_token(str(file), {}) is not None
        else:
            assert refusal(str(file), {}) == f"the token file {file} holds no token"


def test_a_token_with_letters_of_any_alphabet_is_an_opaque_one() -> None:
    assert asker({"SLURM_JWT": "a.b\u00fcc.d"}) == "a.b\u00fcc.d"
