"""A plugin may do what it wants: it is muted, that is said, and nothing else changes."""

from __future__ import annotations

import pytest

MISDEEDS = {
    "raises": 'raise ValueError("no")',
    "spins in C": "return sum(range(10**15))",
    "leaks": """kept = []
                while True:
                    kept.append(bytearray(64 * 2**20))""",
    "lies about what is there": 'return self.claim(view, subject="job:999")',
    "lies about the loss": "return self.claim(view, gpu_seconds=1e12)",
}


@pytest.mark.parametrize("body", MISDEEDS.values(), ids=MISDEEDS)
def test_a_bad_plugin_is_muted_and_named_and_the_others_say_what_they_would_without_it(
    engine, honest, plugin, scene, body, look, states, said
):
    path = plugin(
        "bad",
        f"""
        class Bad(Base):
            name = "bad"
            def evaluate(self, view):
                {body}
        """,
    )
    alone, beside = engine(honest), engine(path, honest, budget_s=2.0)
    tick = scene.run(100, {})
    expected, report = look(alone, tick), look(beside, tick)
    assert len(expected.findings) == 1
    assert report.findings == expected.findings
    assert states(report) == {"honest": "ok", "bad": "muted"}
    assert [error.where for error in report.errors] == ["detector bad"]
    said(f"{report.errors[0].where}: {report.errors[0].message}", report.errors[0].hint)
    later = scene.run(10, {})
    assert look(beside, later).findings == look(alone, later).findings
