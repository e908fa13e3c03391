"""Twenty questions that a screen answers in three keys: a test asks them, a page lists the keys."""

from __future__ import annotations

from typing import Final, NamedTuple

MOST_KEYS: Final = 3


class Answer(NamedTuple):
    """What the screen answers after some keys."""

    keys: tuple[str, ...]
    texts: tuple[str, ...]
    """Patterns that are found on every size of the screen."""


DEMO: Final = {
    "is my job healthy?": Answer((), (r"16 48214 .* you .* ‼● hangs",)),
    "since when not?": Answer((), (r"hangs since \d\d:\d\d",)),
    "mine or the machine's?": Answer(("j", "x"), ("owner sbatch --exclude=gpu006", "admin ")),
    "which rank?": Answer(("Enter",), (r" 6 gpu007 .* ‼ hang", r"14 more like it")),
    "what do I type?": Answer(("x",), ("owner srun --jobid=48214 --overlap -w gpu007 py",)),
    "is it my input?": Answer((), ("48220 .* GPUs wait for data 69 %",)),
    "does NVLink work?": Answer(("Enter",), ("NVLink [█▁-▇]+ 0 B/s", "NVLink unused")),
    "why does it wait?": Answer((), ("48213 .* waits: Resources, starts in 16h",)),
    "what did last night's job waste?": Answer(
        ("5", "G"), (r"48192 .* 30\.0 .*! no kernel 29\.1h \(97 %\)", r"48182 .* not watched")
    ),
    "will it fit fewer GPUs?": Answer((), ("3 of 8 GPUs unused", "would fit into a sl")),
    "what is lost now?": Answer((), (r"lost now \d\d \+ ~\d\.\d GPUs",)),
    "by whom?": Answer(("6",), (r"you +\d+ +2\d", "bjorn +2 +2.0")),
    "why?": Answer(("f",), (r"‼ hang +48214 +16 ", r"some GPUs unused +48217 +3\.0 ")),
    "which node to drain?": Answer(("3",), (r"gpu006 +5\.5 .*! sw thermal", "gpu010 .*‼ ECC")),
    "what got better?": Answer(("f", "G"), (r"no tensor cores +48216 +0 ",)),
    "is it one switch?": Answer(("9", "b"), ("verdict by leaf switch",)),
    "whom to write to?": Answer(("f", "Enter"), ("hang: 48214", "Evidence|→ See")),
    "does the ledger add up?": Answer(
        ("B",), (r"\n *unobserved +\d+ ", r"\n *total +\d+ +–", r"some GPUs unused +6\.\d\d")
    ),
    "which nodes report nothing?": Answer(("3",), (r"gpu011 .*down\* .*never",)),
}
"""The twentieth, what is new since lunch, has a test of its own."""

KEPT: Final = {
    **DEMO,
    "what did last night's job waste?": Answer(
        ("5", "G"), (r"48189 .* 192 +96\.0h ! some GPUs unused 96\.0",)
    ),
    "what got better?": Answer(
        ("B",), (r"Better than before: input bound 3\d\.\d → \d\.\d %", "Worse than before: hang")
    ),
    "by whom?": Answer(("B",), (r"\n *ada +[\d,]+ +[\d,.]+ +\d\d\.\d % +\d\d\.\d %",)),
    "does the ledger add up?": Answer(("B",), (r"\n *total +[\d,]+ +–",)),
}
"""With two weeks of books the past has an answer of its own."""

LAB: Final = {
    "is my job healthy?": Answer((), (r"3\.1 4 +pretrain.* alice .* ‼◐ rank 5 \(gpu02 GPU 1\)",)),
    "since when not?": Answer(("Enter",), (r"waiting since \d\d:\d\d",)),
    "mine or the machine's?": Answer(("x",), ("owner srun --jobid=4", "admin scontrol show node")),
    "which rank?": Answer((), (r"rank 5 \(gpu02 GPU 1\)",)),
    "what do I type?": Answer(("x",), ("owner srun --jobid=4 --overlap -w gpu02 top",)),
    "is it my input?": Answer(("Enter",), (r"rests\s+39 % of the\s+time while they spin",)),
    "does NVLink work?": Answer(("Enter",), ("NVLink used, 66 GB/s",)),
    "why does it wait?": Answer(("4",), ("No job waits.",)),
    "what did last night's job waste?": Answer(
        ("G", "Enter"), ("booked 0.36", "wasted 0.00 GPU-h")
    ),
    "will it fit fewer GPUs?": Answer(("j", "Enter"), ("3 of 4 GPUs unused",)),
    "what is lost now?": Answer((), (r"lost now 6\.1 GPUs",)),
    "by whom?": Answer(("6",), (r"alice +8 +3\.1", r"bob +4 +3\.0")),
    "why?": Answer(("f",), (r"straggler +4 rank 5 +3\.1", r"some GPUs unused +5 +3\.0")),
    "which node to drain?": Answer(("3",), (r"gpu02 +1\.5 .* ok ", r"gpu03 +3\.0 .* ok ")),
    "what got better?": Answer(("B",), ("No ledger is stored on disk",)),
    "is it one switch?": Answer(("9", "b"), (r"gpu02  ‼52 ‼31 ‼52 ‼53",)),
    "whom to write to?": Answer((), (r"4 +pretrain.* alice", "5 +hpo-sweep +bob")),
    "does the ledger add up?": Answer(("B",), (r"some GPUs unused +1\.00", r"straggler +0\.51")),
    "which nodes report nothing?": Answer(("3",), (r"gpu01 .* [0-9]s ", r"gpu03 .* [0-9]s ")),
}

NEW: Final = "what is new since lunch?"
"""The twentieth, which needs an hour away."""


def questions_table() -> str:
    """The questions with the keys that lead to their answers, as a Markdown table."""
    lines = ["| question | demo | lab's recording | two weeks of ledger |", "|---|---|---|---|"]
    lines += [
        f"| {asked} | {_keys(answer)} | {_keys(LAB[asked])} | {_keys(KEPT[asked])} |"
        for asked, answer in DEMO.items()
    ]
    lines.append(f"| {NEW} | first screen | first screen | first screen |")
    return "\n".join(lines)


def _keys(answer: Answer) -> str:
    return " ".join(f"`{key}`" for key in answer.keys) or "first screen"
