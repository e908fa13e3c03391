"""Counts words that docs/words.md does not want, and the words of the pages written by hand.

Looked through are the pages with their generated parts, the manual page, the changelog, the help of
every command, every message that code holds, and shipped files with texts. Generated parts are
mended in the docstring that they come from.

    python -m tools.words            lower the counts in tools/words.json to today's
    python -m tools.words --check    name what is above its count, exit 1 if anything is

A count of unwanted words is never raised: to need one in one place is to reword another. Pages have
room up to a length that does not move; beyond it something else is to be made shorter.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
COUNTS: Final = ROOT / "tools" / "words.json"
GLOSSARY: Final = "words.md"
TOTAL: Final = "words written by hand"
README_WORDS: Final = "words of README.md"
MOST: Final = {TOTAL: 22_000, README_WORDS: 700}
"""Words of all pages: what one reads in two hours. A choice, as of the README: one sitting."""
MANUAL: Final = "gpumon.1"
CHANGES: Final = "CHANGELOG.md"
HELP: Final = "--help"
SHIPPED: Final = ("gpumon/serve", "gpumon/report")
"""Where files with texts are that people import or read: dashboard, alerts, schemas."""
SOURCES: Final = ("gpumon", "detectors/gpumon_detectors")
"""Where messages are: a detector's sentences are read by the same people."""
_SEVERAL: Final = re.compile(r"[A-Za-z]\S*\s+\S*[A-Za-z]\S*\s+\S*[A-Za-z]")
"""Three words: what is shorter is a key, a title or a joint between two numbers."""

_SHOWN: Final = re.compile(r'"(?:description|title)": "([^"]*)"')
_GENERATED: Final = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
_CODE: Final = re.compile(r"^```.*?^```|`[^`\n]+`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def hand_written(text: str) -> str:
    """A page without its generated parts."""
    return _GENERATED.sub("", text)


def unwanted(page: str) -> re.Pattern[str]:
    """What the glossary's second table lists, as one pattern.

    Args:
        page: Text of the glossary.
    """
    table = page.partition("| not written |")[2].partition("\n\n")[0]
    words = [
        word
        for row in table.splitlines()
        for word in re.findall(r"`([^`]+)`", row.strip("|").partition("|")[0])
    ]
    return re.compile(rf"\b(?:{'|'.join(map(_form, words))})\b(?!-)", re.IGNORECASE)


def _form(word: str) -> str:
    """A row's word as a pattern; `X` stands for any, with which `there is no X` is well said."""
    head, any_word, _ = word.partition(" X")
    if not any_word:
        return _apart(word)
    return rf"(?<!there ){_apart(head)}\s+(?!longer\b|more\b|one\b)\w+"


def _apart(words: str) -> str:
    """Words that a line may end between."""
    return r"\s+".join(map(re.escape, words.split()))


def counted(texts: Mapping[str, str], glossary: str) -> dict[str, int]:
    """Unwanted words of each text, code left out; texts without any are not in it."""
    pattern = unwanted(glossary)
    counts = {name: len(pattern.findall(_CODE.sub(" ", text))) for name, text in texts.items()}
    return {name: count for name, count in counts.items() if count}


def pages() -> dict[str, str]:
    """What people read: README, CONTRIBUTING and docs, with their generated parts."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def helps() -> str:
    """What the parsers of every command say."""
    from gpumon.cli.commands.completion import every_command
    from gpumon.cli.options import EPILOG

    def docs() -> Iterator[str]:
        yield EPILOG
        for command in every_command():
            yield command.doc
            yield from (option.doc for option in command.options)
            yield from (argument.doc for argument in command.arguments)

    return "\n".join(docs())


def shipped() -> dict[str, str]:
    """Texts of files that are no code: titles and descriptions of JSON, all of YAML."""
    found = {}
    for folder in SHIPPED:
        for file in sorted((ROOT / folder).glob("*.json")):
            texts = _SHOWN.findall(file.read_text(encoding="utf-8"))
            found[str(file.relative_to(ROOT))] = "\n".join(texts)
        for file in sorted((ROOT / folder).glob("*.yml")):
            found[str(file.relative_to(ROOT))] = file.read_text(encoding="utf-8")
    return found


def said(source: str) -> list[str]:
    """The messages that a module holds: texts of several words, docstrings left out.

    Args:
        source: Text of the module.
    """
    found, left = [], list[ast.AST](ast.parse(source).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        found.append(_text(node))
        inner = ast.iter_child_nodes(node)
        is_text = isinstance(node, ast.JoinedStr)
        left += [one for one in inner if not (is_text and isinstance(one, ast.Constant))]
    return [text for text in reversed(found) if _SEVERAL.search(text)]


def _text(node: ast.AST) -> str:
    """What a literal says, a pair of braces for each value in it; empty for all other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    return "".join(_text(part) if isinstance(part, ast.Constant) else "{}" for part in parts)


def messages() -> dict[str, str]:
    """What each module can say to people."""
    files = [file for folder in SOURCES for file in sorted((ROOT / folder).rglob("*.py"))]
    return {
        str(file.relative_to(ROOT)): "\n".join(said(file.read_text(encoding="utf-8")))
        for file in files
    }


def today() -> dict[str, int]:
    """Every count as it is now."""
    texts = pages()
    lengths = {name: len(hand_written(text).split()) for name, text in texts.items()}
    glossary = texts.pop(GLOSSARY)
    manual = (ROOT / "docs" / MANUAL).read_text(encoding="utf-8")
    changes = (ROOT / CHANGES).read_text(encoding="utf-8")
    others = {MANUAL: manual, CHANGES: changes, HELP: helps()}
    counts = counted({**texts, **others, **shipped(), **messages()}, glossary)
    return {TOTAL: sum(lengths.values()), README_WORDS: lengths["README.md"], **counts}


def above(now: Mapping[str, int], most: Mapping[str, int]) -> list[str]:
    """A line for each count that is higher than it may be, with the way out."""
    limits = {**most, **MOST}
    return [
        f"{name}: {count}, at most {limits.get(name, 0)}; "
        + ("shorten another page" if name in MOST else f"docs/{GLOSSARY} has the words to use")
        for name, count in now.items()
        if count > limits.get(name, 0)
    ]


def main(words: Sequence[str]) -> int:
    """1 where a count is too high."""
    now, most = today(), json.loads(COUNTS.read_text(encoding="utf-8"))
    for line in above(now, most):
        print(line)
    if "--check" not in words:
        lowered = {name: min(count, now.get(name, 0)) for name, count in most.items()}
        remaining = {name: count for name, count in lowered.items() if count and name not in MOST}
        COUNTS.write_text(json.dumps(remaining, indent=2) + "\n", encoding="utf-8")
    return int(bool(above(now, most)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
