"""Rules by which a server records what an overview of a large fleet needs, and their names.

Each is evaluated once for everybody who watches: a poll of all GPUs is then a few plain series, and
only of the nodes that are watched closer are all metrics asked for.
"""

from __future__ import annotations

from typing import Final

from gpumon.sources.exporters.gpu_labels import LABELS
from gpumon.sources.exporters.gpu_names import FREE, METRICS

PARTS: Final = (*LABELS["uuid"], *LABELS["instance"])
"""Labels by which a series is of a GPU or of an instance."""

ALL: Final = (*dict.fromkeys(name for some in LABELS.values() for name in some), "instance")
"""Every label that a page's plan reads, and the target's own, by which a server names a host."""

PREFIX: Final = "gpumon:"

SAMPLED_AT: Final = f"{PREFIX}told_at_seconds:max"
"""When each GPU was last heard, with its labels."""

_FIELDS: Final = (
    *("gpu_util_ratio", "sm_active_ratio", "tensor_active_ratio"),
    *("mem_used_bytes", FREE, "power_w"),
)
"""What an overview shows of a GPU, and what its memory as a whole follows from."""

RECORDED: Final = {
    name: f"{PREFIX}{name}:max" for name, metric in METRICS.items() if metric.field.key in _FIELDS
}
"""The recorded series of each metric."""

INTERVAL_S: Final = 30
"""How often the rules are evaluated: as often as dcgm-exporter collects by default."""

LATE_S: Final = 30.0 + INTERVAL_S
"""By so much later than a sample itself what a rule makes of it may come: vmalert evaluates what
was 30 s ago (its `-rule.evalDelay`, and `-search.latencyOffset` of VictoriaMetrics; measured with
1.79 and 1.145: 31 to 35 s), and that only so often."""


def rules() -> str:
    """The file of rules, as `rule_files` of Prometheus and `-rule` of vmalert read it."""
    times = " or ".join(f"timestamp({name})" for name in RECORDED)
    lines = ["groups:", "- name: gpumon", f"  interval: {INTERVAL_S}s", "  rules:"]
    asked = [(SAMPLED_AT, f"max by ({','.join(ALL)}) ({times})")]
    asked += [(record, f"max by ({','.join(PARTS)}) ({name})") for name, record in RECORDED.items()]
    for record, question in asked:
        lines += [f"  - record: {record}", f"    expr: {question}"]
    return "\n".join(lines) + "\n"
