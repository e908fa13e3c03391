"""What a round says when it fails by gpumon's own fault."""

from __future__ import annotations

import pytest

from tests.unit.sources.slurm.poll.test_queue import PretendClock, Scripted, run


@pytest.mark.parametrize(
    ("what", "told"), [("topology", "reading Slurm's topology"), ("job", "reading Slurm's jobs")]
)
def test_an_error_of_gpumons_own_says_in_words_what_was_read(monkeypatch, what, told) -> None:
    clock = PretendClock(10.0)
    commands = Scripted(clock)

    def stumble(*_words: str) -> str:
        raise TypeError("unexpected")

    monkeypatch.setattr(commands, "topology" if what == "topology" else "show", stumble)
    (frame, *_) = run(commands, clock)
    messages = [f"{error.where} {error.message}" for error in frame.errors]
    assert any(told in text for text in messages), messages
    assert not any("topologys" in text for text in messages)
