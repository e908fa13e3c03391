"""Hides in a command line what looks like a secret: other people may see the same screen.

What only a reader could know for a secret, such as a bare word, stays. Where in doubt it is hidden.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN: Final = "***"

_PARTS: Final = frozenset(
    {
        "auth", "authorization", "bearer", "cookie", "cred", "credential", "credentials", "creds",
        "key", "keys", "pass", "passphrase", "passwd", "password", "passwords", "pat", "pwd",
        "secret", "secrets", "sig", "signature", "token",
    }
)  # fmt: skip
"""Parts of names whose values are secrets: `HF_TOKEN`, `--api-key`, `dbPassword`."""

_WITHIN: Final = ("apikey", "accesskey", "secret", "password", "passwd", "passphrase", "credential")
"""The same where a name has no parts: `MYSECRET`, `apikey2`."""

_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_NAME: Final = r"(?<![A-Za-z0-9_.-])([A-Za-z0-9_.-]++)"
"""A name as options, variables, headers and keys of JSON have them, from its beginning on."""

_WHOLE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]++")

_ASSIGNING: Final = re.compile(rf"""{_NAME}(?:\\?["'])?\]?\s*+=\s*+""")
"""`TOKEN=` within a longer text, `?token=`, `os.environ["TOKEN"] =`."""

_KEY: Final = re.compile(rf"""{_NAME}\\?["']\s*+:\s*+""")
"""`"token":` of JSON and of Python, also where its quotes are escaped."""

_HEADING: Final = re.compile(rf"{_NAME}\s*+:\s*+")
"""`Authorization:`."""

_OPTION: Final = re.compile(r"(?<!\S)--?([A-Za-z][A-Za-z0-9_.-]*+)\s++(?!--)")
"""`--token ` within one word, as programs that rewrite their title have it."""

_VALUE: Final = re.compile(
    r"""\\"(?:[^"\\]|\\[^"])*+(?:\\")?|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[^\s"',;&}\])]++"""
)
"""What is quoted, else up to what ends a value in a shell, in JSON or in an address."""

_LINE: Final = re.compile(r"[^\r\n]++")

_ENDS: Final = re.compile(r"[\r\n\t][\r\n\t ]*+")
"""Ends of lines, with what the next is indented by."""

_SCHEME: Final = re.compile(
    r"\b(bearer|basic|digest|negotiate)(\s++|%20)([^\s\"',;]++)", re.IGNORECASE
)
_SCHEMES: Final = frozenset({"bearer", "basic", "digest", "negotiate"})

_BARE: Final = frozenset({"auth", "passphrase", "passwd", "password", "secret", "token"})
"""Words that are followed by a secret also where they are no option: `redis-cli AUTH x`."""

_USERINFO: Final = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*+://)([^\s/?#@:]*+)(:[^\s/?#]*)?@")

_SHAPES: Final = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|AIza|eyJ[A-Za-z0-9_-]+\.)"
    r"[A-Za-z0-9_.-]{10,}"
)
"""Tokens that are known by how they begin: of Hugging Face, GitHub, GitLab, OpenAI, Slack, AWS,
Google, and JSON web tokens."""

_SHORT: Final = {
    "curl": ("-u", "-U"), "sshpass": ("-p",), "mysql": ("-p",), "mysqldump": ("-p",),
    "mariadb": ("-p",), "redis-cli": ("-a",), "smbclient": ("-U",),
}  # fmt: skip
"""Options of one letter that take a password, by the program; elsewhere they mean other things."""

_WITH_USER: Final = frozenset({"--user", "--proxy-user"})
"""Options whose value is a name, a colon and a password."""


def is_secret_name(name: str) -> bool:
    """Whether the value of an option, a variable, a header or a key of this name is a secret."""
    parts = [part.lower() for part in _PART.findall(name)]
    if not _PARTS.isdisjoint(parts):
        return True
    joined = "".join(parts)
    return joined.endswith("token") or any(word in joined for word in _WITHIN)


def redacted(words: Sequence[str]) -> str:
    """A command line on one line, harmless, without what looks like a secret.

    Args:
        words: The program and its arguments.
    """
    program = words[0].rpartition("/")[2] if words else ""
    short = _SHORT.get(program, ())
    shown: list[str] = []
    before = ""
    for word in words:
        shown.append(_shown_word(word, before, short))
        before = word
    # Several lines are one with blanks between, once what ends with a line is hidden.
    shown = [_ENDS.sub(" ", word.rstrip("\r\n")) for word in shown]
    # What is one word is a title that the program gave itself.
    return plain(" ".join(map(_quoted, shown)) if len(shown) > 1 else "".join(shown), 4096)


def _shown_word(word: str, before: str, short: tuple[str, ...]) -> str:
    """One word behind another one."""
    if before in _WITH_USER or before in short:
        name, colon, _ = word.partition(":")
        return f"{name}:{HIDDEN}" if colon else word if before in _WITH_USER else HIDDEN
    if before.lower() in _SCHEMES or before.lower() in _BARE:
        return HIDDEN
    takes_next = before.startswith("-") and "=" not in before and not before.endswith(":")
    if takes_next and is_secret_name(before) and not word.startswith("--"):
        return HIDDEN
    if before.endswith(":") and is_secret_name(before[:-1].rpartition(" ")[2]):
        return HIDDEN
    for option in short:
        if word.startswith(option) and len(word) > len(option):
            return option + HIDDEN
    return _without_secrets(word)


def _without_secrets(text: str) -> str:
    """A word by itself, whatever is around it."""
    name, equals, _ = text.partition("=")
    # Only what is a name as a whole: its value then goes to the end of the word.
    if equals and _WHOLE_NAME.fullmatch(name) and is_secret_name(name):
        return f"{name}={HIDDEN}"
    text = _USERINFO.sub(_hidden_user, text)
    text = _SCHEME.sub(rf"\1\2{HIDDEN}", text)
    for names, value in (
        (_KEY, _VALUE),
        (_ASSIGNING, _VALUE),
        (_OPTION, _VALUE),
        (_HEADING, _LINE),
    ):
        text = _hidden_behind(names, value, text)
    return _SHAPES.sub(HIDDEN, text)


def _hidden_behind(names: re.Pattern[str], value: re.Pattern[str], text: str) -> str:
    """The text with what follows each secret's name hidden."""
    shown: list[str] = []
    at = 0
    for name in names.finditer(text):
        if name.start() < at or not is_secret_name(name[1]):
            continue
        found = value.match(text, name.end())
        if found is not None:
            shown += [text[at : name.end()], HIDDEN]
            at = found.end()
    return "".join((*shown, text[at:]))


def _hidden_user(match: re.Match[str]) -> str:
    """`https://ada:***@`; a name alone is a token where the web is asked."""
    scheme, name, password = match.groups()
    if password is not None:
        return f"{scheme}{name}:{HIDDEN}@"
    return f"{scheme}{HIDDEN}@" if scheme.lower().startswith("http") else match[0]


def _quoted(word: str) -> str:
    """A word as it could be typed, where blanks would make several of it."""
    return f"'{word}'" if not word or any(char.isspace() for char in word) else word
