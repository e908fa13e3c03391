"""Every thread and lock is listed, and no two locks are ever taken in both orders."""

from __future__ import annotations

import re

from tools.threads import in_code, listed, threads_page


def test_every_module_that_starts_a_thread_has_a_row_and_each_row_such_a_module() -> None:
    threads, _ = listed()
    modules = {one.module for one in threads}
    assert modules == in_code()[0], "a thread has a row in tools/threads.toml"


def test_every_lock_has_a_row_and_each_row_a_lock() -> None:
    _, locks = listed()
    keys = [one.key for one in locks]
    assert len(keys) == len(set(keys))
    assert set(keys) == in_code()[1], "a lock has a row in tools/threads.toml"


def test_locks_are_taken_within_one_another_in_one_order_only() -> None:
    inner = {one.key: one.within for one in listed()[1]}

    def below(key: str, above: tuple[str, ...] = ()) -> None:
        assert key not in above, f"{' then '.join((*above, key))}: a circle"
        for other in inner[key]:
            below(other, (*above, key))

    for key in inner:
        below(key)


def test_what_is_waited_for_at_an_end_is_short() -> None:
    waits = [one.joined_s for one in listed()[0] if one.joined_s is not None]
    assert max(waits) <= 10.0
    assert re.search(r"\| sampler \|.*\| 0\.45 s \|", threads_page())
