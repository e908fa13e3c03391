"""Which series of a page belongs to which field of which node; made once for a page's shape.

What is about one GPU may come several times, for each job or pod that uses it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.model.text import plain
from gpumon.sources.exporters.gpu_labels import LABELS, host_of, label_of, uuid_of
from gpumon.sources.exporters.gpu_names import FREE, INFO, KNOWN
from gpumon.sources.exporters.host_plan import host_plan
from gpumon.sources.exporters.strangers import nothing_in
from gpumon.sources.probes.decode import MOST_ROWS
from gpumon.sources.probes.rates import DERIVED, DERIVED_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumon.sources.exporters.gpu_names import Metric
    from gpumon.sources.exporters.host_plan import HostPlan, Missing, Variants
    from gpumon.sources.exposition.parse import Page, Sample

MOST_NODES: Final = 1024
"""Nodes on one page: that of an exporter has one, a page made of many pages some hundred."""

MOST_GPUS: Final = 8192
"""GPUs on one page: of each some 14 KB are stored, most of them why values are missing."""

MOST_HOLDERS: Final = 16
"""Jobs, and pods, of one GPU that are read: two of each of its instances (our choice)."""

_GPU_LABELS: Final = ("name", "pci_bus_id", "serial", "vbios")
_NODE_LABELS: Final = ("driver_version", "nvml_version")
_MIG: Final = "MIG-"
"""With this the UUIDs of instances begin."""

_DEVICE: Final = re.compile(r"nvidia([0-9]{1,4})")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_JOB: Final = re.compile(r"(?!0\Z)[A-Za-z0-9](?:[A-Za-z0-9_.+-]|\[[0-9]{1,9}\]){0,63}")
"""A job's id in any queue system, of a text without blanks; 0 is none."""

_POD: Final = re.compile(r"(?!.*dcgm-exporter)[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
"""Names of Kubernetes (RFC 1123), but for the exporter's own, which Prometheus puts on its page."""

_SHOWN_LABEL: Final = 60

_OF_WHICH: Final = "describes several nodes, and hosts without naming them"

_MAX_INDEX: Final = 1024
"""Largest number of a GPU, a device file or an instance (the catalogue's)."""

_FIELDS: Final = {
    block: tuple(
        key
        for key, field in CATALOGUE.items()
        if field.block == block and key not in DERIVED_OF.get(block, ())
    )
    for block in ("gpu", "mig")
}
"""What a block may hold that no other value gives."""

_USE: Final = tuple(
    key for key in _FIELDS["gpu"] if CATALOGUE[key].unit == "ratio" and key != "fan_speed_ratio"
)
"""What a GPU does, of which one that is cut has nothing as a whole."""

_Cells = dict[tuple[str, str], list[tuple[int, int]]]
"""Row and place of each value, by field and DCGM's name."""


class Column(NamedTuple):
    """The values of one field by one name of DCGM's: where they come from and belong."""

    key: str
    metric: Metric
    cells: tuple[tuple[int, int], ...]
    """Row of each value, and its number among those that are read."""


class Table(NamedTuple):
    """How one block is made."""

    keys: tuple[str, ...]
    fields: tuple[str, ...]
    columns: tuple[Column, ...]
    given: Mapping[str, tuple[int | None, ...]]
    """Numbers that labels hold."""
    labels: Mapping[str, tuple[str | None, ...]]
    missing: Missing
    """Why what is on no page is missing."""
    sums: tuple[tuple[str, str, str, str], ...]
    """A whole, and its parts: used, free, reserved."""
    integers: frozenset[str]
    untold: frozenset[str]
    """What would follow from counters, of which `missing` has the reason."""
    variants: Variants
    """`missing` with what single readings lack besides, each once for all blocks of this form."""


class NodePlan(NamedTuple):
    """How the blocks of one node are made."""

    host_name: str
    gpus: Table
    migs: Table
    labels: Mapping[str, tuple[str | None, ...]]
    """Of the node itself."""
    xids: Mapping[str, int]
    """By GPU, the number of the value that is its last Xid."""
    host: HostPlan | None = None
    """How what there is of the host itself is read; None: nothing is."""

    @property
    def counts_energy(self) -> bool:
        """Whether there is a counter that grows at each collection."""
        return any(column.key == "energy_j" for column in self.gpus.columns)


class _Place(NamedTuple):
    """What a series is about; empty where its labels do not name it."""

    host: str
    uuid: str
    instance: str


class Gathered:
    """Series of one node."""

    def __init__(self) -> None:
        self.gpus: dict[str, Mapping[str, str]] = {}
        """Labels of each GPU, by UUID."""
        self.migs: dict[str, tuple[str, Mapping[str, str]]] = {}
        """The GPU of each instance, and labels."""
        self.cells: dict[tuple[str, str, str], tuple[int, int]] = {}
        """Rank and sample by block, entity and field."""
        self.jobs: dict[str, dict[str, None]] = {}
        """Jobs that labels put on each GPU, by UUID."""
        self.pods: dict[str, dict[str, None]] = {}
        """Pods likewise, each with namespace and container."""
        self.odd: dict[str, None] = {}
        """Labels of jobs that are no id."""
        self.crowded: dict[str, None] = {}
        """GPUs that more of them share than are read."""

    def hold(self, uuid: str, labels: Mapping[str, str]) -> None:
        """Note which job and which pod labels put on a GPU."""
        job, pod = label_of(labels, "job"), _pod_of(labels)
        if job is not None and _JOB.fullmatch(job):
            self._add(self.jobs, uuid, job)
        elif job not in (None, "0"):
            self.odd[job] = None
        if pod:
            self._add(self.pods, uuid, pod)

    def _add(self, held: dict[str, dict[str, None]], uuid: str, who: str) -> None:
        on = held.setdefault(uuid, {})
        if who in on or len(on) < MOST_HOLDERS:
            on[who] = None
        else:
            self.crowded[uuid] = None


def plans_of(
    page: Page,
) -> tuple[tuple[NodePlan, ...], list[int], list[tuple[str, str]]]:
    """How the nodes of a page are read.

    Returns:
        The plans, the numbers of the samples whose values they need, and remarks on the page, each
        with a way out.

    Raises:
        PlanError: It is no page of a known exporter, or has nothing yet.
    """
    nodes: dict[str, Gathered] = {}
    disputed: dict[str, None] = {}
    places: dict[int, _Place] = {}
    boards: dict[tuple[str, str], str] = {}
    held: set[int] = set()
    nameless = beyond = gpus = 0
    for number, sample in enumerate(page.samples):
        metric = KNOWN.get(sample.name)
        if metric is None and sample.name != INFO:
            continue
        # Most series of a GPU share one object of labels, which the page keeps alive.
        place = places.get(id(sample.labels))
        if place is None:
            place = places[id(sample.labels)] = _place(sample.labels, page.samples, boards)
        host, uuid, _ = place
        if not uuid:
            nameless += 1
            continue
        node = nodes.get(host)
        if node is None or uuid not in node.gpus:
            if gpus >= MOST_GPUS or (node is None and len(nodes) >= MOST_NODES):
                beyond += 1
                continue
            gpus += 1
            node = nodes.setdefault(host, Gathered())
        if id(sample.labels) not in held:
            held.add(id(sample.labels))
            node.hold(uuid, sample.labels)
        if metric is None:
            node.gpus[uuid] = sample.labels
        elif _gather(node, place, number, metric, page.samples):
            disputed[f"{sample.name} of {uuid}"] = None
    remarks = _remarks(nodes, disputed, nameless, beyond)
    wanted: list[int] = []
    plans = tuple(_plan(host, node, page.samples, wanted) for host, node in nodes.items())
    of_host, odd = host_plan(page, wanted)
    if of_host is not None and len(plans) > 1:
        of_host, odd = None, [(_OF_WHICH, "name the hosts' own pages")]
    if of_host is not None:
        first = plans[0] if plans else _no_gpus(of_host.host_name)
        own_name = first.host_name or of_host.host_name
        plans = (first._replace(host=of_host, host_name=own_name),)
    elif not plans:
        raise nothing_in(page, nameless, odd)
    return plans, wanted, [*remarks, *odd]


def _no_gpus(host_name: str) -> NodePlan:
    nothing = Table(
        keys=(), fields=(), columns=(), given={}, labels={}, missing={}, sums=(),
        integers=frozenset(), untold=frozenset(), variants={},
    )  # fmt: skip
    return NodePlan(host_name=host_name, gpus=nothing, migs=nothing, labels={}, xids={})


def _gather(
    node: Gathered, about: _Place, number: int, metric: Metric, samples: Sequence[Sample]
) -> bool:
    """Put a series where it belongs; whether another one there has another value."""
    sample = samples[number]
    _, uuid, instance = about
    known = node.gpus.get(uuid)
    if known is None or len(sample.labels) > len(known):
        # Those of an instance name its GPU as well.
        node.gpus[uuid] = sample.labels
    block, entity, key = "gpu", uuid, metric.field.key
    if instance:
        # A slash would part it, as it does the keys of links.
        entity = f"MIG-{uuid}.{instance}"
        node.migs.setdefault(entity, (uuid, sample.labels))
        if metric.mig_key:
            block, key = "mig", metric.mig_key
        elif metric.is_of_instance:
            return False
        else:
            entity = uuid
    place = (block, entity, key)
    rank, other = node.cells.get(place, (metric.rank, -1))
    if other < 0 or metric.rank < rank:
        node.cells[place] = metric.rank, number
        return False
    # Of GPUs that several jobs or pods share, each series comes once for each of them.
    before = samples[other]
    is_same_series = before.name == sample.name
    return is_same_series and repr(before.value) != repr(sample.value)


def _plan(host: str, node: Gathered, samples: Sequence[Sample], wanted: list[int]) -> NodePlan:
    """The plan of one node; adds the samples that it needs to the wanted ones."""
    ordered = sorted(node.gpus, key=lambda uuid: (_number(node.gpus[uuid], "index") or 0, uuid))
    gpus = {uuid: row for row, uuid in enumerate(ordered[: MOST_ROWS["gpu"]])}
    within = sorted(
        (gpus[uuid], _number(labels, "instance") or 0, key)
        for key, (uuid, labels) in node.migs.items()
        if uuid in gpus
    )
    migs = {key: row for row, (_, _, key) in enumerate(within[: MOST_ROWS["mig"]])}
    rows = {"gpu": gpus, "mig": migs}
    found: dict[str, _Cells] = {"gpu": {}, "mig": {}}
    xids: dict[str, int] = {}
    for (block, entity, key), (_, number) in node.cells.items():
        row = rows[block].get(entity)
        if row is None:
            continue
        place = len(wanted)
        wanted.append(number)
        if key == "xid":
            xids[entity] = place
        else:
            of_name = found[block].setdefault((key, samples[number].name), [])
            of_name.append((row, place))
    first = node.gpus[ordered[0]]
    texts = {label: (label_of(first, label),) for label in _NODE_LABELS}
    labels = {label: text for label, text in texts.items() if text[0] is not None}
    if host:
        labels["host_name"] = (host,)
    cut = {uuid for uuid, _ in node.migs.values()}
    return NodePlan(
        host_name=host,
        gpus=_gpu_table(tuple(gpus), node, found["gpu"], cut),
        migs=_mig_table(tuple(migs), node, found["mig"]),
        labels=labels,
        xids=xids,
    )


def _gpu_table(keys: tuple[str, ...], node: Gathered, cells: _Cells, cut: set[str]) -> Table:
    """How the block of GPUs is made; `cut` are those with instances."""
    of_gpus = [node.gpus[uuid] for uuid in keys]
    given: dict[str, tuple[int | None, ...]] = {
        "index": tuple(_number(labels, "index") for labels in of_gpus),
        "minor_number": tuple(_minor(labels) for labels in of_gpus),
    }
    if cut:
        given["mig_mode"] = tuple(1 if uuid in cut else None for uuid in keys)
    labels = {label: tuple(label_of(one, label) for one in of_gpus) for label in _GPU_LABELS}
    for label, holders in (("label_jobs", node.jobs), ("label_pods", node.pods)):
        labels[label] = tuple(" ".join(holders.get(uuid, ())) or None for uuid in keys)
    table = _table("gpu", keys, cells, given, labels)
    missing = dict(table.missing)
    for row in (row for row, uuid in enumerate(keys) if uuid in cut):
        # Of a GPU that is cut the driver reports no use as a whole: its instances have it.
        for key in _USE:
            if (key, row) in missing:
                missing[key, row] = Reason.NOT_SUPPORTED
    table = table._replace(missing=missing)
    return _summed(table, ("mem_total_bytes", "mem_used_bytes", FREE, "mem_reserved_bytes"))


def _mig_table(keys: tuple[str, ...], node: Gathered, cells: _Cells) -> Table:
    of_migs = [node.migs[key] for key in keys]
    given = {"mig_gpu_instance": tuple(_number(labels, "instance") for _, labels in of_migs)}
    labels = {
        "parent": tuple(uuid for uuid, _ in of_migs),
        "profile": tuple(label_of(labels, "profile") for _, labels in of_migs),
    }
    table = _table("mig", keys, cells, given, labels)
    return _summed(table, ("mig_mem_total_bytes", "mig_mem_used_bytes", FREE, ""))


def _summed(table: Table, parts: tuple[str, str, str, str]) -> Table:
    """The table with a whole that is made of its parts where these are there."""
    whole, used, free, _ = parts
    present = {(column.key, row) for column in table.columns for row, _ in column.cells}
    missing = {
        (key, row): why
        for (key, row), why in table.missing.items()
        if key != whole or not {(used, row), (free, row)} <= present
    }
    return table._replace(missing=missing, sums=(parts,))


def _table(
    block: str,
    keys: tuple[str, ...],
    cells: _Cells,
    given: Mapping[str, tuple[int | None, ...]],
    labels: Mapping[str, tuple[str | None, ...]],
) -> Table:
    """A table with the reason for everything that the page lacks."""
    present = {(key, row) for (key, _), places in cells.items() for row, _ in places}
    missing = {
        (key, row): Reason.NOT_SHARED
        for key in _FIELDS[block]
        for row in range(len(keys))
        if (key, row) not in present and (key not in given or given[key][row] is None)
    }
    named = {*given, *(key for key, _ in cells)}
    derived = DERIVED_OF.get(block, ())
    untold = frozenset(key for key in derived if not {key, DERIVED[key].counter} & named)
    missing |= {(key, row): Reason.NOT_SHARED for key in untold for row in range(len(keys))}
    for label, texts in labels.items():
        empty = {(label, row): Reason.NOT_SHARED for row, text in enumerate(texts) if text is None}
        missing.update(empty)
    columns = tuple(
        Column(key, KNOWN[name], tuple(places)) for (key, name), places in cells.items()
    )
    fields = tuple(dict.fromkeys((*given, *(column.key for column in columns))))
    integers = frozenset(key for key in _FIELDS[block] if CATALOGUE[key].kind.is_integer)
    return Table(
        keys=keys, fields=fields, columns=columns, given=given, labels=labels, missing=missing,
        sums=(), integers=integers, untold=untold, variants={},
    )  # fmt: skip


def _place(
    labels: Mapping[str, str], samples: Sequence[Sample], boards: dict[tuple[str, str], str]
) -> _Place:
    """What a series is about, by its labels.

    Args:
        labels: Of the series.
        samples: Of the whole page.
        boards: The GPU in each place; filled where an instance is found with a UUID of its own.
    """
    host, instance, uuid = (
        host_of(labels) or "",
        label_of(labels, "instance") or "",
        uuid_of(labels),
    )
    if uuid.startswith(_MIG):
        if not boards:
            boards.update(_boards(samples))
        # Where nothing is there of the whole, it is all that is known of the GPU.
        uuid = boards.get(_slot(labels), uuid)
    return _Place(host, uuid, instance)


def _slot(labels: Mapping[str, str]) -> tuple[str, str]:
    """Where a GPU is: its node by the page's own label, and its number there."""
    return host_of(labels) or "", label_of(labels, "index") or ""


def _boards(samples: Sequence[Sample]) -> dict[tuple[str, str], str]:
    """The GPU in each place: nvidia_gpu_prometheus_exporter names instances by UUIDs of their own.

    It repeats what it has of a whole GPU, such as its power, for each of its instances.
    """
    each = {id(one.labels): one.labels for one in samples if one.name in KNOWN}
    wholes = ((_slot(one), uuid_of(one)) for one in each.values())
    found = {at: uuid for at, uuid in wholes if at[1] and uuid and not uuid.startswith(_MIG)}
    # Never empty, so that they are looked for once; no instance is there.
    return found or {("", "-"): ""}


def _pod_of(labels: Mapping[str, str]) -> str:
    """The pod that holds a GPU, with namespace and container; empty: labels name none."""
    kinds = zip(*(LABELS[what] for what in ("namespace", "pod", "container")), strict=True)
    names = next((some for some in kinds if labels.get(some[1])), ("", "", ""))
    valid = [word for word in map(labels.get, names) if word and _POD.fullmatch(word)]
    return "/".join(valid) if labels.get(names[1]) in valid else ""


def _number(labels: Mapping[str, str], what: str) -> int | None:
    text = label_of(labels, what) or ""
    return int(text) if _NUMBER.fullmatch(text) and int(text) <= _MAX_INDEX else None


def _minor(labels: Mapping[str, str]) -> int | None:
    match = _DEVICE.fullmatch(label_of(labels, "device") or "")
    return int(match[1]) if match and int(match[1]) <= _MAX_INDEX else None


def _remarks(
    nodes: Mapping[str, Gathered], disputed: Iterable[str], nameless: int, beyond: int
) -> list[tuple[str, str]]:
    """What is odd about a page that can be read, each with a way out."""
    found = []
    twice = list(disputed)
    if twice:
        more = f" and {len(twice) - 1:,} more" if len(twice) > 1 else ""
        text = f"reports {twice[0]}{more} twice, with different values; the first counts"
        found.append((text, "two exporters may be behind one address"))
    if nameless:
        text = f"{nameless:,} series name no GPU by its UUID and are left out"
        found.append((text, "see which label names GPUs there: UUID is dcgm-exporter's"))
    odd = list(dict.fromkeys(label for node in nodes.values() for label in node.odd))
    if odd:
        more = f" and {len(odd) - 1:,} more" if len(odd) > 1 else ""
        text = f"has a job label that is not a job id: {plain(odd[0], _SHOWN_LABEL)!r}{more}"
        found.append((text, "look at the files that dcgm-exporter reads jobs from (its -j)"))
    crowded = [uuid for node in nodes.values() for uuid in node.crowded]
    if crowded:
        text = f"has more than {MOST_HOLDERS} jobs or pods on {crowded[0]}; the first are read"
        found.append((text, "check its labels"))
    if beyond:
        than = f"{MOST_NODES:,} nodes or {MOST_GPUS:,} GPUs"
        text = f"{beyond:,} series are of more than {than} and are left out"
        found.append((text, "name the nodes' own pages"))
    for block in ("gpu", "mig"):
        most = MOST_ROWS[block]
        counts = (len(node.gpus if block == "gpu" else node.migs) for node in nodes.values())
        count = max(counts, default=0)
        if count > most:
            text = f"reports {count:,} rows of {block} of one node; {most:,} are read"
            found.append((text, "no node has so many: check what answers there"))
    return found
