"""Healthy jobs that train nothing: servers, sessions, simulations, video, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.simulate.shifted.kinds.steps import begin, recipe
from gpumon.simulate.shifted.signals import Phase
from gpumon.simulate.shifted.story import Kind

if TYPE_CHECKING:
    from gpumon.simulate.shifted.story import Story


def _serve(story: Story, busy_share: float) -> None:
    """Phases of a server; requests make it busy for a share of a burst's time."""
    draw, share = story.draw, busy_share
    recipe(story, draw.of("serve_mem_ratio"))
    story.phases["serve"] = Phase(
        util=share, sm=draw.of("serve_sm") * share, dram=draw.of("serve_dram") * share,
        tensor=draw.of("serve_tensor") * share, load=draw.of("serve_load") * share, cores=1.3,
    )  # fmt: skip
    story.phases["await"] = story.phases["rest"]._replace(cores=draw.of("polling_cores"))


def serving_bursts(story: Story) -> None:
    """Requests come in bursts; in between the weights wait."""
    draw, life = story.draw, story.life
    _serve(story, draw.of("burst_util"))
    tape = story.tape()
    begin(story, tape)
    count = 400
    bursts = draw.lognormal(draw.of("burst_median_s"), draw.of("burst_sigma"), count)
    gaps = draw.lognormal(draw.of("gap_median_s"), draw.of("gap_sigma"), count)
    # The longest gap of the published trace is 258 minutes; here the windows are shorter.
    gaps = np.minimum(gaps, 3600.0)
    tape.loop(("serve", "await"), np.stack((bursts, gaps), axis=1))
    tape.until("await", life.length_s)
    story.program = draw.one(("python3", "vllm", "tritonserver", "python"))


def serving_steadily(story: Story) -> None:
    """A server with a load that never stops."""
    _serve(story, story.draw.of("steady_util"))
    tape = story.tape()
    begin(story, tape)
    tape.until("serve", story.life.length_s)
    story.program = "python3"


def standby(story: Story) -> None:
    """Two copies of a server: the second takes over now and then, by a health check's order."""
    draw, life = story.draw, story.life
    _serve(story, draw.of("burst_util"))
    first, second = story.tape(), story.tape()
    begin(story, first, 80.0)
    second.then("start", 80.0)
    story.tape_of = [gpu % 2 for gpu in range(life.gpus)]
    while first.length_s < life.length_s:
        turn = draw.of("standby_turn_s")
        for tape, other in ((first, second), (second, first)):
            tape.then("serve", turn)
            other.then("await", turn)
    story.program = "python3"


def notebook(story: Story) -> None:
    """A user works in a notebook, and the cells take minutes."""
    draw, life = story.draw, story.life
    recipe(story, draw.of("small_mem_ratio"))
    tape = story.tape()
    begin(story, tape, 60.0)
    share, cell_s = draw.of("notebook_busy_ratio"), draw.of("notebook_burst_s")
    count = max(4, int(life.length_s * share / cell_s))
    cells = draw.lognormal(cell_s, 0.5, count)
    gaps = draw.lognormal(cell_s * (1 - share) / share, 0.5, count)
    tape.loop(("compute", "rest"), np.stack((cells, gaps), axis=1))
    tape.loop(("compute", "rest"), np.stack((cells, gaps), axis=1)[::-1])
    story.is_interactive = True


def debugger(story: Story) -> None:
    """An interactive run that stops at a breakpoint for a quarter of an hour now and then."""
    draw, life = story.draw, story.life
    recipe(story)
    tape = story.tape()
    begin(story, tape, 60.0)
    story.is_interactive = True
    while tape.length_s < life.length_s:
        tape.then("compute", draw.of("debug_run_s")).then("rest", draw.of("debug_pause_s"))


def batches(story: Story) -> None:
    """Files are worked off one by one; between two the next is fetched."""
    draw, life = story.draw, story.life
    recipe(story, draw.of("small_mem_ratio") + 0.2)
    tape = story.tape()
    begin(story, tape, 60.0)
    count = int(life.length_s / 150) + 2
    works = draw.lognormal(draw.of("batch_s"), 0.4, count)
    gaps = draw.lognormal(draw.of("batch_gap_s"), 0.4, count)
    story.phases["fetch"] = story.phases["load"]._replace(read=3e8, cores=1.0)
    tape.loop(("fetch", "compute"), np.stack((gaps, works), axis=1))
    story.program = "python"


def double_precision(story: Story) -> None:
    """Fluid dynamics or chemistry: FP64 by need, no tensor cores."""
    draw, life = story.draw, story.life
    recipe(story)
    tape = story.tape()
    begin(story, tape, 60.0)
    story.phases["solve"] = Phase(
        util=1.0, sm=draw.of("fp32_sm"), fp64=draw.of("solver_fp64"), dram=draw.of("solver_dram"),
        load=draw.of("fp32_load"), cores=1.0,
    )  # fmt: skip
    step = story.steps(life.length_s - tape.length_s, draw.of("step_s"), 0.02)
    halo = draw.of("halo_ratio") if life.gpus > 1 else 0.0
    tape.loop(("solve", "comm"), step[:, None] * np.array([[1 - halo, halo]]))
    story.program = draw.one(("vasp_std", "nekrs", "amber.cuda"))


def molecules(story: Story) -> None:
    """Molecular dynamics: FP32 outside the tensor cores, by need, in many small kernels."""
    draw, life = story.draw, story.life
    recipe(story, draw.of("molecule_mem_ratio") + 0.28)
    tape = story.tape()
    begin(story, tape, 40.0)
    story.phases["solve"] = Phase(
        util=draw.of("molecule_util"), sm=draw.of("molecule_sm"), fp32=draw.of("molecule_fp32"),
        dram=0.2, load=draw.of("molecule_load"), cores=1.0,
    )  # fmt: skip
    tape.until("solve", life.length_s)
    story.program = draw.one(("gmx_mpi", "namd3", "lmp"))


def transcoding(story: Story) -> None:
    """Video is decoded and encoded; hardly a kernel runs."""
    draw, life = story.draw, story.life
    recipe(story, draw.of("tiny_mem_ratio"))
    tape = story.tape()
    begin(story, tape, 40.0)
    story.phases["film"] = Phase(
        util=draw.of("film_util"), sm=draw.of("film_sm"), encoder=draw.of("film_encoder"),
        decoder=draw.of("film_decoder"), load=draw.of("film_load"), cores=2.2, read=2e7,
    )  # fmt: skip
    tape.until("film", life.length_s)
    story.program = "ffmpeg"


def sliced(story: Story) -> None:
    """A slice of a GPU that MIG cut: NVML has no utilisation of it."""
    draw = story.draw
    recipe(story, draw.of("small_mem_ratio"))
    tape = story.tape()
    begin(story, tape, 60.0)
    tape.until("compute", story.life.length_s)
    story.is_sliced = True


# Nodes and GPUs of each, one of which is drawn. Our choice: the sizes at which the kinds occur.
_SMALL: Final = ((1, 1), (1, 2), (1, 4))

KINDS: Final = (
    Kind("serving_bursts", serving_bursts, (), ((1, 1), (1, 2)), hours=(3.0, 4.8), least_s=3300,
         names=("api", "llm-serve")),
    Kind("serving_steadily", serving_steadily, (), _SMALL, hours=(2.0, 4.0), least_s=1600,
         names=("endpoint", "tei-embed")),
    Kind("standby", standby, (), ((1, 2), (1, 4)), hours=(2.0, 4.0), least_s=2200,
        names=("blue-green", "ha")),
    Kind("notebook", notebook, (), ((1, 1),), hours=(2.0, 4.0), least_s=2200,
        names=("jupyter", "nb.bash")),
    Kind("debugger", debugger, (), ((1, 1), (1, 2)), hours=(1.5, 3.0), least_s=1600,
        names=("pdb", "dev.bash")),
    Kind("batches", batches, (), _SMALL, hours=(1.4, 3.4), least_s=1600,
        names=("whisper-all", "ocr")),
    Kind("double_precision", double_precision, (), _SMALL, hours=(1.2, 3.4), least_s=1600,
         names=("cfd", "vasp_relax")),
    Kind("molecules", molecules, (), ((1, 1), (1, 2)), hours=(1.2, 3.4), least_s=1600,
        names=("md-npt", "fep")),
    Kind("transcoding", transcoding, (), ((1, 1), (1, 2)), hours=(1.4, 3.4), least_s=1600,
         names=("h265", "clips")),
    Kind("sliced", sliced, (), ((1, 1),), hours=(1.2, 3.0), least_s=1600, board="slices",
        names=("mig-1g", "class")),
)  # fmt: skip
