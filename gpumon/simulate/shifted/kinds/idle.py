"""Jobs that hold GPUs and do not use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.simulate.shifted.kinds.steps import begin, healthy_save, recipe, train
from gpumon.simulate.shifted.signals import Phase
from gpumon.simulate.shifted.story import Kind

if TYPE_CHECKING:
    from gpumon.simulate.shifted.story import Story


def never_started(story: Story) -> None:
    """The batch script waits for a licence, a lock or a peer that never comes."""
    recipe(story)
    story.memory = [[(0.0, 0.0)]]
    story.tape_of = [None] * story.life.gpus
    story.phases["nothing"] = story.phases["nothing"]._replace(lost=1.0)
    story.tape().then("nothing", story.life.length_s)
    story.quiet_from_s = 60.0
    story.end_state = "CANCELLED"
    story.blame("never_started")


def cpu_only(story: Story) -> None:
    """A program that was built for CPUs, or preprocessing that never ends."""
    recipe(story)
    cores = story.draw.of("cpu_job_cores") / story.life.gpus
    story.memory = [[(0.0, 0.0)]]
    story.phases["crunch"] = Phase(
        cores=cores, read=story.draw.of("read_bytes_per_s") / story.life.gpus, lost=1.0
    )
    story.tape_of = [None] * story.life.gpus
    story.tape().then("crunch", story.life.length_s)
    story.blame("cpu_only")


def idle_tail(story: Story) -> None:
    """The program ends, the script sleeps on."""
    of, tape = recipe(story), story.tape()
    onset = story.onset(4000)
    begin(story, tape)
    every_s, save_s = healthy_save(story)
    train(story, tape, onset, of, every_s, save_s)
    story.phases["over"] = story.phases["nothing"]._replace(lost=1.0)
    story.process_to_s = onset
    story.memory = [[*story.memory[0], (onset - 1.0, story.memory[0][-1][1]), (onset, 0.0)]]
    tape.until("over", story.life.length_s)
    story.end_state = "CANCELLED"
    story.blame("idle_tail", onset)


def idle_held(story: Story) -> None:
    """A program that waits for its input, a breakpoint or a dead peer, memory held."""
    of = recipe(story, story.draw.of("held_mem_ratio"))
    tape = story.tape()
    begin(story, tape)
    onset = tape.length_s + 60.0
    if story.draw.happens(0.7):
        onset = story.onset(story.draw.of("late_idle_s"))
    train(story, tape, onset, of)
    story.phases["held"] = story.phases["rest"]._replace(
        lost=1.0, cores=story.draw.of("idle_cores") / story.life.gpus
    )
    tape.until("held", story.life.length_s)
    story.quiet_from_s = onset
    story.end_state = "CANCELLED"
    story.blame("idle_held", onset)


def partial_gpus_idle(story: Story) -> None:
    """Fewer ranks than GPUs: one process where the job holds several, or one node of two."""
    life, draw = story.life, story.draw
    of, tape = recipe(story), story.tape()
    used = draw.whole(1, max(1, life.gpus - 1))
    if life.nodes > 1:
        used = life.gpus_per_node
    story.alone_on(*draw.mixed(range(life.gpus))[:used])
    if life.nodes > 1:
        story.alone_on(*range(used))
    begin(story, tape)
    train(story, tape, life.length_s, of, *healthy_save(story))
    lost_s = (life.gpus - used) * life.seen_s
    story.blame("partial_gpus_idle", story.process_from_s, lost_gpu_s=lost_s)


def some_gpus_leave(story: Story) -> None:
    """Half of the workers die in the middle; the rest goes on without them."""
    life = story.life
    of, both = recipe(story), story.tape()
    onset = story.onset(3600)
    begin(story, both)
    train(story, both, onset, of)
    left = story.branch()
    story.phases["gone"] = Phase(lost=1.0)
    train(story, both, life.length_s, of)
    left.until("gone", life.length_s)
    gone = story.draw.mixed(range(life.gpus))[: max(1, life.gpus // 2)]
    story.tape_of = [1 if gpu in gone else 0 for gpu in range(life.gpus)]
    story.leaves_s = dict.fromkeys(gone, onset)
    whole = story.memory[0]
    ended = [*whole, (onset - 1.0, whole[-1][1]), (onset, 0.0)]
    story.memory = [ended if gpu in gone else whole for gpu in range(life.gpus)]
    story.blame("partial_gpus_idle", onset)


def interactive_idle(story: Story) -> None:
    """A shell or notebook that computes a cell now and then."""
    draw, life = story.draw, story.life
    recipe(story)
    tape = story.tape()
    story.is_interactive = True
    story.memory = [[(0.0, 0.0), (200.0, draw.of("held_mem_ratio"))]]
    story.process_from_s = 150.0
    begin(story, tape, 90.0)
    cells_s = draw.of("session_burst_s")
    # Rests of two hours and more would be `idle_held` as well.
    count = max(life.length_s / 2000.0, life.length_s * draw.of("session_busy_ratio") / cells_s)
    bursts = draw.lognormal(cells_s, 0.6, int(count))
    gaps = draw.lognormal(1.0, 0.5, int(count))
    gaps *= max(60.0, life.length_s - tape.length_s - bursts.sum()) / gaps.sum()
    story.phases["think"] = story.phases["rest"]._replace(lost=1.0)
    tape.loop(("think", "compute"), np.stack((gaps, bursts), axis=1))
    tape.until("think", life.length_s)
    story.blame("interactive_idle")


def slow_startup(story: Story) -> None:
    """Packages are installed, an image unpacked or kernels compiled for a long time first."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    start_s = min(draw.of("slow_start_s"), 0.5 * life.length_s)
    story.phases["install"] = Phase(
        cores=draw.of("start_cores") / life.gpus, lost=1.0, io_wait=0.2,
        read=draw.of("start_read_bytes_per_s") / life.gpus,
    )  # fmt: skip
    tape.then("install", start_s)
    begin(story, tape, 60.0)
    train(story, tape, life.length_s, of, *healthy_save(story))
    story.blame("slow_startup", 0.0, start_s)


# Nodes and GPUs of each, one of which is drawn. Our choice: a pair that is there twice comes twice.
_SMALL: Final = ((1, 1), (1, 2), (1, 1), (1, 3), (1, 4))
_SEVERAL: Final = ((1, 2), (1, 4), (1, 3), (1, 6))

KINDS: Final = (
    Kind("never_started", never_started, ("never_started",), _SMALL, hours=(1.2, 2.4), least_s=1500,
         names=("wait-for-lic", "queue_runner")),
    Kind("cpu_only", cpu_only, ("cpu_only",), _SMALL, hours=(2.4, 3.4), least_s=4300,
         names=("tokenize", "sklearn_grid")),
    Kind("idle_tail", idle_tail, ("idle_tail",), _SMALL, hours=(2.4, 3.6), least_s=2000,
         names=("train_and_sync", "exp")),
    Kind("idle_held", idle_held, ("idle_held",), _SMALL, hours=(3.0, 4.0), least_s=3000,
         names=("probe_run", "gen-data")),
    Kind("partial_gpus_idle", partial_gpus_idle, ("partial_gpus_idle",), (*_SEVERAL, (2, 4)),
         hours=(1.5, 3.0), least_s=1500, names=("finetune", "one-proc")),
    Kind("some_gpus_leave", some_gpus_leave, ("partial_gpus_idle",), _SEVERAL, hours=(2.2, 3.2),
        least_s=2000,
         names=("sweep", "workers")),
    Kind("interactive_idle", interactive_idle, ("interactive_idle",), ((1, 1), (1, 1), (1, 2)),
         hours=(3.6, 4.6), least_s=8000, names=("interactive", "bash", "sys/dashboard/jupyter")),
    Kind("slow_startup", slow_startup, ("slow_startup",), _SMALL, hours=(1.5, 3.0), least_s=3000,
         names=("pip-run", "container_job"), is_whole=True),
)  # fmt: skip
