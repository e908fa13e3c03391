"""A node of a scene: what it reports, block by block, and how it fares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Gpu, Node, SlurmNode
from gpumon.model.staleness import stale_after_s

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from gpumon.model.fault import SourceError

    _Column = array[float] | array[int] | tuple[str | None, ...]
    """What all entities of a block tell of a field; texts are a label's."""


_ALWAYS: Final = ("process", "context", "event")
"""Blocks that a probe tells also where they are empty."""

_FIELDS: Final = {
    block: frozenset(labels).union(f.key for f in CATALOGUE.values() if f.block == block)
    for block, labels in LABELS.items()
}
"""Labels and fields of each block."""


_NEVER: Final = object()
"""In the place of what was never told."""


class Sheet:
    """The entities of one block, and what each reports until told otherwise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._entities: dict[str, dict[str, object]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._lasting: dict[str, dict[str, object]] = {}
        self._passing: dict[str, frozenset[str]] = {}
        self._made: Block | None = None
        self._columns: dict[str, _Column] = {}
        """What was made of each field; those that were told otherwise since are not there."""
        self._moving: set[str] = set()
        """Fields of which a function tells, so that they are another at each time."""

    def set(
        self, key: str, at: float, values: Mapping[str, object], *, instead: bool = False
    ) -> None:
        """Have an entity report these values and labels from a Unix time on.

        `instead` takes back what was set before with `instead`, and nothing else.

        Raises:
            KeyError: It has no such field.
        """
        if unknown := values.keys() - _FIELDS[self._name]:
            raise KeyError(f"{min(unknown)} is not a field of {self._name}")
        before = self._entities.get(key)
        entity = self._entities[key] = {} if before is None else dict(before)
        lasting = self._lasting.setdefault(key, {})
        if instead:
            for field in self._passing.pop(key, ()):
                entity.pop(field, None)
            values = {**values, **lasting}
            self._passing[key] = frozenset(values) - lasting.keys()
        else:
            lasting.update(values)
        entity.update(values)
        for field in values:
            if not (instead and field in lasting):
                self._since[key, field] = at
        self._forget(before, entity)

    def drop(self, key: str) -> None:
        """Have an entity vanish."""
        self._entities.pop(key, None)
        self._forget(None, {})

    def block(self, at: float) -> Block:
        """What is reported at a Unix time; the same object while nothing changes."""
        if self._made is None or self._moving:
            self._made = self._block(at)
        return self._made

    def _forget(self, before: dict[str, object] | None, now: dict[str, object]) -> None:
        """Forget what was made of fields that one entity tells otherwise; None: of all fields."""
        if before is None:
            self._columns.clear()
            self._made = None
            return
        gone = before.keys() - now.keys()
        for field in (
            *gone,
            *(f for f, value in now.items() if before.get(f, _NEVER) is not value),
        ):
            self._columns.pop(field, None)
            self._made = None

    def _block(self, at: float) -> Block:
        keys = tuple(self._entities)
        fields = sorted({field for values in self._entities.values() for field in values})
        columns, labels = {}, {}
        for field in fields:
            column = self._columns.get(field)
            if column is None or field in self._moving:
                column = self._columns[field] = self._column(field, at)
            if isinstance(column, tuple):
                labels[field] = column
            else:
                columns[field] = column
        self._moving.intersection_update(fields)
        return Block(keys, columns, labels, {})

    def _column(self, field: str, at: float) -> _Column:
        """What all entities tell of a field at a Unix time."""
        reported = [values.get(field) for values in self._entities.values()]
        self._moving.discard(field)
        if any(map(callable, reported)):
            self._moving.add(field)
            reported = [
                value(at - self._since[key, field]) if callable(value) else value
                for key, value in zip(self._entities, reported, strict=True)
            ]
        if field in LABELS[self._name]:
            return tuple(None if text is None else str(text) for text in reported)
        return column_for(
            CATALOGUE[field].kind.is_integer, cast("list[float | int | None]", reported)
        )


class Machine:
    """One node of a scene."""

    def __init__(self, name: str, gpu_count: int, product: str, at: float) -> None:
        self.name = name
        self.uuids = [f"GPU-{name}-{index}" for index in range(gpu_count)]
        self.sheets = {block: Sheet(block) for block in LABELS}
        self.slurm = SlurmNode(
            name=name, host_name=name, address=name, state="mixed", gpu_count=gpu_count
        )
        self.is_listed = True
        """Whether a queue lists it."""
        self.errors: tuple[SourceError, ...] = ()
        self.silent_since: float | None = None
        self.fallen: set[str] = set()
        self.is_by_page = False
        """Whether an exporter's page tells of it, not a probe."""
        for index, uuid in enumerate(self.uuids):
            self.sheets["gpu"].set(uuid, at, {"index": index, "name": product})
        self.sheets["node"].set(name, at, {"boot_id": f"boot-{name}"})

    def lose(self, uuid: str) -> None:
        """Have a GPU vanish from what the node reports."""
        self.uuids.remove(uuid)
        self.sheets["gpu"].drop(uuid)

    def records(
        self, at: float, period_s: float, stale: frozenset[str]
    ) -> tuple[Node, dict[str, Gpu]]:
        """The node and its GPUs at a Unix time."""
        heard_at = at if self.silent_since is None else min(at, self.silent_since)
        is_stale = at - heard_at > stale_after_s(period_s)
        blocks = {name: sheet.block(heard_at) for name, sheet in self.sheets.items()}
        always = () if self.is_by_page else _ALWAYS
        blocks = {name: block for name, block in blocks.items() if block.keys or name in always}
        if self.fallen:
            blocks["gpu"] = _without(blocks["gpu"], self.fallen)
        gpus = {}
        for row, uuid in enumerate(self.uuids):
            gpus[uuid] = Gpu(
                uuid=uuid,
                node=self.name,
                block=blocks["gpu"],
                row=row,
                taken_at=heard_at,
                origin="scene",
                is_stale=is_stale or uuid in stale,
                processes=(),
            )
        node = Node(
            name=self.name,
            gpu_uuids=tuple(self.uuids),
            taken_at=heard_at,
            is_stale=is_stale,
            state=self.slurm.state if self.is_listed else None,
            errors=self.errors,
            lateness_s=0.0,
            block=blocks["node"],
            blocks=blocks,
        )
        return node, gpus


def _without(block: Block, fallen: set[str]) -> Block:
    """The block as the driver tells it when some of its GPUs fell off the bus."""
    rows = [row for row, key in enumerate(block.keys) if key in fallen]
    columns = dict(block.columns)
    for field, column in block.columns.items():
        if field != "index":
            values = [
                None if row in rows else block.value(field, row) for row in range(len(column))
            ]
            columns[field] = column_for(CATALOGUE[field].kind.is_integer, values)
    missing = {(field, row): Reason.LOST for field in columns for row in rows if field != "index"}
    return block._replace(columns=columns, missing={**block.missing, **missing})
