"""Who asks, by a token: what a file of tokens may hold, and what each shows."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.report.document.document import document
from gpumon.serve import tokens as module
from gpumon.serve.exchange import Answer, Asked, RefusedError
from gpumon.serve.frames import FrameFeed
from gpumon.serve.routes import Routes, Served
from gpumon.serve.tokens import TokenError, tokens
from tests.worlds.clocks import Hasty
from tests.worlds.tick import AT, fleet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GRACE, BOSS = "g" * 16, "B0ss-token.of/many+letters=="
SHOWS = {"grace": ("user:grace",), "boss": ("*",)}
LINES = f"# who may ask\n\ngrace {GRACE}\nboss\t{BOSS}\n"


def file(folder: Path, text: str = LINES, mode: int = 0o600) -> str:
    path = folder / "tokens"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def asked(token: str | None, path: str = "/v1/snapshot", scheme: str = "Bearer") -> Asked:
    headers = {} if token is None else {"authorization": f"{scheme} {token}"}
    return Asked("GET", path, {}, headers, is_persistent=True)


def test_a_token_says_who_asks(tmp_path: Path) -> None:
    known = tokens(file(tmp_path), SHOWS)
    assert known.viewer(asked(GRACE)) == ("grace", frozenset({"grace"}))
    assert known.viewer(asked(BOSS, scheme="bearer")) == ("boss", None)


@pytest.mark.parametrize("token", [None, "", "x" * 16, GRACE[:-1], GRACE + "g", "é"])
def test_whoever_has_none_is_refused_in_one_line(tmp_path: Path, token: str | None) -> None:
    with pytest.raises(RefusedError) as refused:
        tokens(file(tmp_path), SHOWS).viewer(asked(token))
    answer = refused.value.answer
    assert answer.status == 401
    assert ("WWW-Authenticate", 'Bearer realm="gpumon"') in answer.headers
    assert answer.body.count(b"\n") == 1


def test_another_scheme_is_no_token(tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        tokens(file(tmp_path), SHOWS).viewer(asked(GRACE, scheme="Basic"))


@pytest.mark.parametrize(
    ("text", "shows", "message"),
    [
        (f"grace {GRACE} more\n", SHOWS, "tokens:1 is not of the form NAME TOKEN"),
        ("grace short\n", SHOWS, "tokens:1 is not of the form"),
        (f"a {GRACE}\nb {GRACE}\n", {"a": ("*",), "b": ("*",)}, "tokens:2 repeats a token"),
        (f"eve {GRACE}\n", SHOWS, "eve shows no jobs; write eve = "),
        (f"boss {BOSS}\n", SHOWS, "grace has no token in "),
        ("# none\n", {}, "holds no token"),
        (f"a {GRACE}\n", {"a": ()}, 'a takes "user:NAME" or "\\*"'),
        (f"a {GRACE}\n", {"a": ("grace",)}, 'a takes "user:NAME" or "\\*"'),
    ],
)
def test_what_does_not_fit_is_said_without_the_token(
    tmp_path: Path, text: str, shows: Mapping[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(TokenError, match=message) as error:
        tokens(file(tmp_path, text), shows)
    assert GRACE not in str(error.value)
    assert BOSS not in str(error.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    with pytest.raises(TokenError, match="is open to others; chmod 600"):
        tokens(file(tmp_path, mode=mode), SHOWS)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="nowhere: No such file"):
        tokens(str(tmp_path / "nowhere"), SHOWS)


def test_more_tokens_than_there_may_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TOKENS", 1)
    with pytest.raises(TokenError, match="holds more than 1 tokens"):
        tokens(file(tmp_path), SHOWS)


@pytest.fixture
def routes(tmp_path: Path) -> Any:
    feed = FrameFeed(["demo"], 1.0, Hasty(AT).now)
    made = Routes(Served(Hasty(AT), document, feed, tokens(file(tmp_path), SHOWS)))
    made.take(fleet())
    yield made
    made.close()
    feed.close()


def ask(routes: Routes, token: str | None, path: str) -> Answer:
    try:
        return asyncio.run(routes.answer(asked(token, path)))
    except RefusedError as error:
        return error.answer


@pytest.mark.parametrize("path", ["/", "/metrics", "/v1/snapshot", "/v1/frames", "/nowhere"])
def test_nothing_is_told_without_a_token(routes: Routes, path: str) -> None:
    assert ask(routes, None, path).status == 401


def test_health_tells_nothing_of_anybody_and_needs_no_token(routes: Routes) -> None:
    assert ask(routes, None, "/healthz").status == 200


def test_each_token_shows_its_own(routes: Routes) -> None:
    def jobs(token: str) -> set[str]:
        return {job["user"] for job in json.loads(ask(routes, token, "/v1/snapshot").body)["jobs"]}

    assert jobs(GRACE) == {"grace", "hidden"}
    assert jobs(BOSS) == {view.job.user for view in fleet().jobs}
    assert b"hidden" not in ask(routes, BOSS, "/metrics").body
    # In either order: a page that is shared is so only by who may see the same.
    assert jobs(GRACE) == {"grace", "hidden"}


def test_who_waits_for_frames_of_some_users_is_answered_as_a_picture_comes(routes: Routes) -> None:
    async def waits() -> Answer:
        first = await routes.answer(asked(GRACE, "/v1/frames"))
        mark = json.loads(first.more[-1])
        query = {"since": f"{mark['run']}-{mark['sequence']}", "wait": "30"}
        answer = asyncio.ensure_future(
            routes.answer(asked(GRACE, "/v1/frames")._replace(query=query))
        )
        await asyncio.sleep(0)
        assert not answer.done()
        routes.take(fleet(number=2))
        routes.rouse()
        return await answer

    assert json.loads(asyncio.run(waits()).more[-1])["sequence"] == 2


def test_frames_show_what_the_token_shows(routes: Routes) -> None:
    assert ask(routes, BOSS, "/v1/frames").status == 200
    answer = ask(routes, GRACE, "/v1/frames")
    assert answer.status == 200
    assert b"edsger" not in answer.body
    mark = json.loads(answer.more[-1])
    assert (mark["kind"], mark["sequence"]) == ("mark", fleet().number)
    assert ask(routes, GRACE, "/v1/frames").body is answer.body
