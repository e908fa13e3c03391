"""What is drawn over time of a GPU, a node and a job: panels that share one time axis."""

from __future__ import annotations

from math import ceil, isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.charts.chart_records import Chart, Mark, Series
from gpumon.report.facts.rows import BlockRow
from gpumon.report.tables.field import bound_of, field_text, round_up, scale
from gpumon.report.text.cells import Cell, Tone
from gpumon.report.text.field_names import spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.model.catalogue.field import Field
    from gpumon.model.records.cluster import Gpu, JobView, Node
    from gpumon.report.facts.rows import Readable
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

SPANS_S: Final = (300.0, 900.0, 3600.0, 7200.0, 21600.0, 86400.0)
"""Stretches of time that can be chosen, seconds."""

STEPS: Final = 120
"""Of a stretch, by which its curves move on: about the cells of a wide screen. What moves on with
every tick is drawn again with every tick, the whole screen of it."""

MAX_GPUS: Final = 256
"""GPUs of a job whose curves are put together; of a larger job every n-th."""

_LEAST: Final = {"bytes/s": 1e6}
"""Ends of scales below which a curve would only show noise, by unit."""

_TONES: Final = (Tone.INFO, Tone.GOOD)

STATES: Final = frozenset({"link_state"})
"""Numbers that name a state and yet make a curve: 0 is the one that nothing works in."""

_ENDS: Final = {
    "job_mem_used_bytes": "job_mem_limit_bytes",
    "host_mem_available_bytes": "host_mem_total_bytes",
}
"""Fields outside of GPUs that are drawn up to another one."""


class Panel(NamedTuple):
    """One chart with its title."""

    title: Line
    chart: Chart


class Plan(NamedTuple):
    """Fields of one unit that are drawn together."""

    title: str
    keys: tuple[tuple[str, str], ...]
    """Key and name of each curve."""
    instead: tuple[tuple[str, str], ...] = ()
    """Drawn where the first of `keys` has never been known."""
    bound: str = ""
    """Key of the value that the scale ends at; empty: that of the catalogue."""


_USE: Final = Plan(
    "",
    (("sm_active_ratio", "SM active"), ("tensor_active_ratio", "tensor active")),
    (("gpu_util_ratio", "duty cycle"),),
)
_MEMORY: Final = Plan("", (("mem_used_bytes", "memory used"),), bound="mem_total_bytes")
_POWER: Final = Plan("", (("power_w", "power"),), bound="power_limit_w")
_PCIE: Final = Plan("PCIe ", (("pcie_rx_bytes_per_s", "received"), ("pcie_tx_bytes_per_s", "sent")))
_NVLINK: Final = Plan(
    "NVLink ", (("nvlink_rx_bytes_per_s", "received"), ("nvlink_tx_bytes_per_s", "sent"))
)
_GPU_PLANS: Final = (_USE, _MEMORY, _POWER, _PCIE, _NVLINK)

_NODE_PLANS: Final = (
    Plan("", (("cpu_busy_ratio", "CPUs busy"), ("cpu_iowait_ratio", "waiting for I/O"))),
    Plan("", (("host_mem_available_bytes", "memory free"),), bound="host_mem_total_bytes"),
    Plan("", (("load_1m", "load of a minute"),), bound="cpu_count"),
)


def span_of(digest: Digest) -> float:
    """The shortest stretch that holds what was observed."""
    observed_s = digest.tick.at - digest.tick.observed_since
    return next((span for span in SPANS_S if span >= observed_s), SPANS_S[-1])


def edges_of(at: float, span_s: float) -> tuple[float, float]:
    """Unix times of both edges of a chart of so much time that holds an instant."""
    step_s = span_s / STEPS
    end = ceil(at / step_s) * step_s
    return end - span_s, end


def gpu_panels(digest: Digest, gpu: Gpu, span_s: float) -> list[Panel]:
    """SM activity or duty cycle, memory, power, PCIe and NVLink of one GPU."""
    return [entity_panel(digest, gpu, gpu.uuid, plan, span_s) for plan in _GPU_PLANS]


def node_panels(digest: Digest, node: Node, span_s: float) -> list[Panel]:
    """CPUs, memory and load of one host."""
    if node.block is None:
        return []
    host = BlockRow(node.name, node.block, 0, node.is_stale)
    return [entity_panel(digest, host, node.name, plan, span_s, "node") for plan in _NODE_PLANS]


def job_panels(digest: Digest, view: JobView, span_s: float) -> list[Panel]:
    """Means over the job's GPUs, with the least and the most of them behind the line."""
    gpus = digest.gpus(view)
    if not gpus:
        return []
    return [_job_panel(digest, view, gpus[0], plan, span_s) for plan in _GPU_PLANS]


def job_activity(digest: Digest, view: JobView, span_s: float) -> Panel | None:
    """What its GPUs did for so long, their mean; None: no telemetry names one."""
    gpus = digest.gpus(view)
    return _job_panel(digest, view, gpus[0], _USE, span_s) if gpus else None


def field_chart(
    digest: Digest,
    key: str,
    entity: Readable,
    name: str,
    stretch: tuple[float, float],
    marks: tuple[Mark, ...] = (),
    window: tuple[float, float] | None = None,
) -> Panel | None:
    """One field of an entity over a stretch of time; None: it is nothing that a curve can show.

    Counters are drawn from their first to their last value: that they rise is what counts. A GPU's
    levels are drawn where their scale is known, those of all else up to a round number.

    Args:
        digest: The tick with its past.
        key: A field of the catalogue, of the block that the entity is in.
        entity: What the field belongs to, now.
        name: Its name in history: a UUID, `UUID/LINK`, `NODE/PORT`, `NODE/JOB`, a node's name.
        stretch: Unix times of both edges.
        marks: Instants to mark.
        window: Unix times between which something was observed.
    """
    field = CATALOGUE.get(key)
    if field is None or not field.is_kept or field.kind is Kind.MASK:
        return None
    is_level = field.kind in (Kind.GAUGE, Kind.RATE)
    if field.block == "gpu" and is_level and scale(entity, field, 1.0) is None:
        return None
    series = _read(digest, name, key, stretch, field.block, Tone.INFO)
    known = [value for value in series.values if not isnan(value)]
    if not known or (field.kind is Kind.ID and key not in STATES):
        return None
    if field.kind is Kind.COUNTER:
        bounds = (min(known), max(known) if max(known) > min(known) else min(known) + 1.0)
    else:
        bounds = _bounds(entity, field, _largest((series,)))
    title: Line = (Cell(spoken(key), Tone.INFO),)
    return Panel(
        title,
        Chart(*stretch, *bounds, unit=field.unit, series=(series,), marks=marks, window=window),
    )


def _bounds(entity: Readable, field: Field, largest: float) -> tuple[float, float]:
    """The ends of a scale that begins at 0."""
    end = bound_of(entity, _ENDS.get(field.key, ""))
    if end and end >= largest:
        return (0.0, float(end))
    return scale(entity, field, largest) or (0.0, round_up(largest))


def entity_panel(
    digest: Digest, entity: Readable, name: str, plan: Plan, span_s: float, block: str = "gpu"
) -> Panel:
    """A chart of the fields of a GPU, or of an entity of another block by its name in history."""
    edges = edges_of(digest.tick.at, span_s)
    # No further than the tick: of one of the past, more is known by now.
    known = (edges[0], digest.tick.at)
    return drawn_panel(
        entity, plan, edges, lambda key: _read(digest, name, key, known, block, Tone.INFO)
    )


def drawn_panel(
    entity: Readable, plan: Plan, stretch: tuple[float, float], read: Callable[[str], Series]
) -> Panel:
    """A chart of the plan's fields: `read` returns their past, `entity` has their values now."""
    keys = plan.keys
    series = [read(key) for key, _ in keys]
    if plan.instead and not is_known(series[0]):
        keys = plan.instead
        series = [read(key) for key, _ in keys]
    toned = tuple(one._replace(tone=tone) for one, tone in zip(series, _TONES, strict=False))
    title = _title(plan, keys, [entity.value(key) for key, _ in keys], toned)
    return Panel(title, _scaled(entity, plan, keys[0][0], stretch, toned))


def _title(
    plan: Plan,
    keys: Sequence[tuple[str, str]],
    values: Sequence[float | None],
    series: Sequence[Series],
) -> Line:
    """What is drawn, each in the colour of its curve, and its value now; dashes before a dashed."""
    title: list[Cell] = [Cell(plan.title, Tone.STRONG)] if plan.title else []
    for number, ((key, label), value, one) in enumerate(zip(keys, values, series, strict=True)):
        text = "–" if value is None else field_text(CATALOGUE[key], value)
        sign = "┄ " if number else ""
        title += [Cell(f"{sign}{label} ", one.tone), Cell(f"{text}  ")]
    return tuple(title)


def _job_panel(digest: Digest, view: JobView, one_gpu: Gpu, plan: Plan, span_s: float) -> Panel:
    at = digest.tick.at
    edges = edges_of(at, span_s)
    stretch = (edges[0], at)
    keys = plan.keys
    series = _job_series(digest, view, [key for key, _ in keys], stretch)
    if plan.instead and not is_known(series[0]):
        keys = plan.instead
        series = _job_series(digest, view, [key for key, _ in keys], stretch)
    title = _title(plan, keys, [digest.mean(view, key) for key, _ in keys], series)
    return Panel(title, _scaled(one_gpu, plan, keys[0][0], edges, tuple(series)))


def _scaled(
    entity: Readable,
    plan: Plan,
    key: str,
    stretch: tuple[float, float],
    series: tuple[Series, ...],
) -> Chart:
    """The chart on a fixed scale where one is known, else up to a round number."""
    field = CATALOGUE[key]
    bound = bound_of(entity, plan.bound) if plan.bound else None
    largest = max(_largest(series), _LEAST.get(field.unit, 0.0))
    ceiling = float(bound) if bound else None
    if ceiling is None or (largest > ceiling and not field.unit):
        fixed = scale(entity, field, largest)
        ceiling = fixed[1] if fixed else round_up(largest)
    return Chart(*stretch, 0.0, ceiling, unit=field.unit, series=series)


def _largest(series: Sequence[Series]) -> float:
    return max(
        (value for one in series for value in (one.high or one.values) if not isnan(value)),
        default=0.0,
    )


def is_known(series: Series) -> bool:
    """Whether there is a value at all."""
    return any(not isnan(value) for value in series.values)


def _read(
    digest: Digest, name: str, key: str, stretch: tuple[float, float], block: str, tone: Tone
) -> Series:
    """One field of one entity; with bounds where the past has been made coarser."""
    history = digest.tick.history
    if history is None:
        return Series((), (), tone)
    start, end = stretch
    if block == "gpu":
        times, values = history.window(name, key, start, end)
    else:
        times, values = history.window(name, key, start, end, block)
    bounds: Any = getattr(history, "extremes", None)
    if bounds is None or not len(times):
        return Series(times, values, tone)
    found = bounds((name,), (key,), start, end, block)
    return Series(
        times=times,
        values=values,
        tone=tone,
        low=found.low[:, 0, 0].tolist(),
        high=found.high[:, 0, 0].tolist(),
    )


def _job_series(
    digest: Digest, view: JobView, keys: list[str], stretch: tuple[float, float]
) -> list[Series]:
    """Mean, least and most over the GPUs while the job held them."""
    history: Any = digest.tick.history
    if not hasattr(history, "slab"):
        return [Series((), (), tone) for _, tone in zip(keys, _TONES, strict=False)]
    # Imported here, because numpy comes with it.
    from gpumon.fleet.history.windows import job_spread

    times, found = job_spread(history, view.job.job_id, keys, *stretch, most=MAX_GPUS)
    return [
        Series(times=times, values=mean, tone=tone, low=low, high=high)
        for (mean, low, high), tone in zip(found, _TONES, strict=False)
    ]
