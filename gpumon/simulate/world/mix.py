"""How fleets of the wide world are drawn: machines, who asks for what, under which names."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.simulate.cluster.job_faults import (
    CRASH,
    HANG,
    NARROW,
    STRAGGLER,
    STUCK,
    Trouble,
    fail_slow_s,
)
from gpumon.simulate.cluster.layout import SimNode, make_node
from gpumon.simulate.cluster.mix import Mix
from gpumon.simulate.cluster.people import ACCOUNTS, YOU, Request, limit_for
from gpumon.simulate.physics.board import BOARDS, H100, Board, capped, in_slot, locked, used_at
from gpumon.simulate.physics.random_streams import stream
from gpumon.simulate.physics.training import Shape
from gpumon.simulate.world.benign import BENIGN
from gpumon.simulate.world.sites import Site, site_of
from gpumon.simulate.world.wasteful import MISPLACED, WASTEFUL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from gpumon.simulate.cluster.workloads import Workload

NEUTRAL: Final = (
    *("run", "job", "train", "test", "main", "exp", "wrap", "sbatch.sh", "run.sh", "submit"),
    *("exp_17", "v2", "final", "try3", "a100", "model", "work", "new", "python", "array"),
)
"""Names that mean nothing: half of all jobs carry one."""

MISLEADING: Final = (
    *("pretrain-70b", "jupyter", "run_ppo.bash", "ood-detection", "desktop-agent-rl", "idle-test"),
    *("serve-bench", "hang-repro", "train_api_v2", "sleep", "notebook-export", "cpu-baseline"),
)
"""Names that point elsewhere, if one believes them: a tenth of all jobs."""

_NODES_PER_PRODUCT: Final = 3
"""Nodes from which on a fleet has another product, a node drained, a silent one. Our choice: with
fewer too little would be left that is well."""

_TROUBLED: Final = 0.75
"""Share of the dense trainings, which are one kind of many, that a fault of one rank befalls."""

_WAITED_FOR: Final = 4
"""Ranks from which on the others wait for one. Our choice: with fewer there are too few others
to compare it with."""

_SLOW: Final = 5
"""Jobs that a slow rank befalls, over those that hang: it is over again, so that few are seen."""
_STUCK_S: Final = (900.0, 4500.0)
"""How long what is left of a job holds its node: until its user restarts it, our choice."""
_CRASHED_S: Final = 40.0
"""How long Slurm takes to end a job whose process died."""

_VARIED: Final = 0.35
"""Share of the partitions that a site has set up in a way of its own."""


def _lay_out(seed: int, nodes: int, gpus: int) -> tuple[SimNode, ...]:
    """Partitions of one product each: the first has the most nodes, the last node is drained."""
    chance = stream(seed, "products")
    site = site_of(seed)
    count = max(1, min(site.products, nodes // _NODES_PER_PRODUCT))
    others = [board for board in BOARDS[1:] if board not in site.boards]
    chosen = (*site.boards, *chance.sample(others, len(others)))[: count - 1]
    boards = [_set_up(board, site, chance) for board in (H100, *chosen)]
    has_drained = nodes >= _NODES_PER_PRODUCT
    usable = nodes - has_drained
    each = usable // (count + 1)
    owned = [usable - each * (count - 1), *[each] * (count - 1)]
    rows = [board for board, many in zip(boards, owned, strict=True) for _ in range(many)]
    rows += [H100] * has_drained
    width = max(3, len(str(nodes + 1)))
    return tuple(
        make_node(seed, number, f"gpu{number + 1:0{width}}", board, number == usable, gpus)
        for number, board in enumerate(rows)
    )


def _set_up(board: Board, site: Site, chance: Random) -> Board:
    """A product as it is sold, or as sites cap, lock or plug it."""
    share = chance.uniform(0.68, 0.88)
    reach, longer = chance.uniform(*chance.choice(site.reaches)), chance.uniform(*site.step_times)
    board = used_at(board, reach, site.gap_share, longer)
    if chance.random() >= _VARIED or board.name in {one.name for one in site.boards}:
        return board
    made = chance.choice(("capped", "locked", "narrow"))
    if made == "narrow" and not board.links:
        return in_slot(board, 8)
    return locked(board, share) if made == "locked" else capped(board, share)


def _draw(seed: int, chance: Random, nodes: dict[str, int], gpus: int) -> Request:
    """A job: as likely a benign one as one that wastes, of either as the site has them."""
    kinds, site = chance.choice((BENIGN, WASTEFUL)), site_of(seed)
    workload = chance.choices(kinds, [site.weight_of(workload) for workload in kinds])[0]
    open_to = {name: many for name, many in nodes.items() if name in workload.partitions} or nodes
    partition = chance.choices(list(open_to), list(open_to.values()))[0]
    shapes, weights = zip(*workload.shapes, strict=True)
    wanted = chance.choices(shapes, weights)[0]
    # No user gets more than half of a partition, unless the job is none otherwise.
    most = max(nodes[partition] // 2, min(workload.least_nodes, nodes[partition]))
    shape = Shape(min(wanted.nodes, max(1, most)), min(wanted.gpus, gpus))
    run_s = 3600.0 * chance.uniform(*workload.hours)
    variant = chance.randrange(40)
    misplaced = MISPLACED.get(workload.kind)
    if misplaced and shape.nodes >= misplaced.least_nodes and variant % 2:
        workload = misplaced
    trouble = trouble_for(workload, shape, run_s, chance)
    return Request(
        workload=workload,
        name=name_for(workload, chance),
        user=chance.choice([user for user in ACCOUNTS if user != YOU]),
        partition=partition,
        shape=shape,
        run_s=run_s,
        limit_s=limit_for(run_s, workload.limit_times),
        variant=variant,
        trouble=trouble,
    )


def trouble_for(workload: Workload, shape: Shape, run_s: float, chance: Random) -> Trouble | None:
    """What befalls one rank of a healthy training, often enough to be met in any fleet."""
    if workload.kind != "dense" or chance.random() >= _TROUBLED:
        return None
    spot, local = chance.randrange(shape.nodes), chance.randrange(shape.gpus)
    kinds = [CRASH, *(STUCK,) * (shape.nodes == 1)]
    # A rank that no other waits for slows none.
    kinds += [*(STRAGGLER,) * _SLOW, HANG, NARROW] if shape.world >= _WAITED_FOR else []
    kind = chance.choice(kinds)
    ages = {NARROW: 0.0, CRASH: run_s - _CRASHED_S, STUCK: run_s - chance.uniform(*_STUCK_S)}
    age_s = ages.get(kind, run_s * chance.uniform(0.2, 0.7))
    is_hot = chance.random() < 0.5
    lasts_s = fail_slow_s(shape, chance) if kind == STRAGGLER else inf
    is_alike = kind == HANG and not is_hot
    return Trouble(
        kind, spot, local, age_s=age_s, is_hot=is_hot, is_alike=is_alike, lasts_s=lasts_s
    )


def name_for(workload: Workload, chance: Random) -> str:
    """What a job is called: nothing, something else than it is, or what its kind is called."""
    drawn = chance.random()
    if drawn < 0.5:
        return chance.choice(NEUTRAL)
    return chance.choice(MISLEADING if drawn < 0.6 else workload.names)


def _silence(seed: int, nodes: Sequence[SimNode], opened_s: float) -> tuple[int, float] | None:
    """The last usable node of a fleet of some, well before it is opened."""
    usable = [node.number for node in nodes if not node.is_drained]
    if len(usable) < _NODES_PER_PRODUCT:
        return None
    return usable[-1], opened_s * stream(seed, "silence").uniform(0.3, 0.9)


def _full(seed: int, nodes: Sequence[SimNode], opened_s: float) -> tuple[int, float] | None:
    """Any other usable node of a fleet of some, in every other fleet."""
    usable = [node.number for node in nodes if not node.is_drained]
    chance = stream(seed, "shared memory")
    if len(usable) < _NODES_PER_PRODUCT or chance.random() < 0.5:
        return None
    return chance.choice(usable[:-1]), opened_s * chance.uniform(0.1, 0.7)


WORLD: Final = Mix(
    _lay_out,
    _draw,
    lambda *_: (),
    lambda *_: (),
    is_full=lambda _: False,
    silence=_silence,
    full=_full,
)
"""Every class and look-alike, on boards of every generation."""
