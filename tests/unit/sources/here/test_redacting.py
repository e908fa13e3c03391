"""What looks like a secret does not reach the screen; what does not, stays readable."""

from __future__ import annotations

import pytest

from gpumon.sources.here.redacting import is_secret_name, redacted

SECRET = "h5nter2"

HIDDEN = {
    "option": (["python", "--token", SECRET, "x.py"], "python --token *** x.py"),
    "option with =": (["x", f"--password={SECRET} and more"], "x --password=***"),
    "option of two words": (["x", "--hf-api-key", SECRET], "x --hf-api-key ***"),
    "option with one line": (["x", "-secret", SECRET], "x -secret ***"),
    "variable": (["env", f"WANDB_API_KEY={SECRET}", "x"], "env WANDB_API_KEY=*** x"),
    "any variable of the kind": (
        ["env", *(f"{name}={SECRET}" for name in ("A_TOKEN", "PGPASSWORD", "MYSECRET"))],
        "env A_TOKEN=*** PGPASSWORD=*** MYSECRET=***",
    ),
    "camel case": (["x", f"dbPassword={SECRET}", f"authToken={SECRET}"],
                   "x dbPassword=*** authToken=***"),
    "docker": (["docker", "run", "-e", f"HF_TOKEN={SECRET}"], "docker run -e HF_TOKEN=***"),
    "header": (["curl", "-H", f"Authorization: Bearer {SECRET}"],
               "curl -H 'Authorization: ***'"),
    "header glued": (["curl", f"-HX-Api-Key: {SECRET} x"], "curl '-HX-Api-Key: ***'"),
    "header as =": (["curl", f"--header=Cookie: a={SECRET}; b"], "curl '--header=Cookie: ***'"),
    "header in two words": (["x", "Authorization:", SECRET], "x Authorization: ***"),
    "scheme": (["x", "Bearer", SECRET], "x Bearer ***"),
    "scheme in a word": (["x", f"--say=basic {SECRET} now"], "x '--say=basic *** now'"),
    "JSON": (["x", f'{{"token": "{SECRET}", "n": 5}}'], """x '{"token": ***, "n": 5}'"""),
    "JSON without blanks": (["x", f'{{"a":{{"apiKey":"{SECRET}"}},"n":5}}'],
                            'x {"a":{"apiKey":***},"n":5}'),
    "JSON in a string": (["x", f'{{\\"password\\": \\"{SECRET}\\"}}'], None),
    "JSON with a quote": (["x", f'{{"password": "a\\"{SECRET}"}}'], """x '{"password": ***}'"""),
    "Python": (["x", f"{{'password': '{SECRET}'}}"], None),
    "code": (["python", "-c", f"import os; os.environ['HF_TOKEN'] = '{SECRET}'; run()"],
             "python -c 'import os; os.environ['HF_TOKEN'] = ***; run()'"),
    "shell": (["sh", "-c", f'export TOKEN="a {SECRET}"; python x'],
              "sh -c 'export TOKEN=***; python x'"),
    "address": (["x", f"https://ada:{SECRET}@host/p"], "x https://ada:***@host/p"),
    "address of a database": (["x", f"--url=postgres://ada:{SECRET}@db/x"],
                              "x --url=postgres://ada:***@db/x"),
    "address that is a token": (["git", "clone", f"https://{SECRET}@host/p"],
                                "git clone https://***@host/p"),
    "query": (["x", f"https://host/p?n=1&token={SECRET}&m=2"],
              "x https://host/p?n=1&token=***&m=2"),
    "query behind =": (["x", f"url=https://host/p?sig={SECRET}"], "x url=https://host/p?sig=***"),
    "title": ([f"vllm: serve --api-key {SECRET} --port 80"],
              "vllm: serve --api-key *** --port 80"),
    "curl": (["/usr/bin/curl", "-u", f"ada:{SECRET}"], "/usr/bin/curl -u ada:***"),
    "--user": (["wget", "--user", f"ada:{SECRET}"], "wget --user ada:***"),
    "sshpass": (["sshpass", "-p", SECRET, "ssh"], "sshpass -p *** ssh"),
    "mysql": (["mysql", f"-p{SECRET}"], "mysql -p***"),
    "bare word": (["redis-cli", "AUTH", SECRET], "redis-cli AUTH ***"),
    "known token": (["x", f"hf_{SECRET}abcdefgh", f"ghp_{SECRET}abcdefgh"], "x *** ***"),
    "web token": (["x", f"eyJhbGciOi.{SECRET}abcdefgh.sig"], "x ***"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HIDDEN)
def test_a_secret_is_hidden(kind):
    words, shown = HIDDEN[kind]
    found = redacted(words)
    assert SECRET not in found
    assert "***" in found
    assert shown is None or found == shown


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --tokenizer meta/llama --max-tokens 512 --author me --lr=1e-4",
        "python -m torch.distributed.run --nproc_per_node=8 --rdzv-endpoint=host:29500 x.py",
        "git clone ssh://git@host/p https://host:8443/p?n=1",
        "/usr/bin/Xorg :0 -auth",
        "python --key --verbose",
        "mysql -P 3306 -p",
        "x --user ada -p 22 http://host:80/",
    ],
)
def test_what_is_no_secret_stays(line):
    assert redacted(line.split(" ")) == line


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("HF_TOKEN", True), ("token", True), ("accesstoken", True), ("api.key", True),
        ("X-Auth-Token", True), ("pwd", True), ("AWS_SECRET_ACCESS_KEY", True), ("ssh-pass", True),
        ("tokenizer", False), ("max_tokens", False), ("monkey", False), ("keyboard", False),
        ("author", False), ("compass", False), ("lr", False), ("", False),
    ],
)  # fmt: skip
def test_names_of_secrets(name, is_secret):
    assert is_secret_name(name) is is_secret


def test_control_characters_are_harmless():
    found = redacted(["a\x1b[31mb", "c\nd\x07", "e\u202ef", "\ud800"])
    assert not any(ord(char) < 32 or char in "\x1b\u202e\ud800" for char in found)
    assert found.startswith("a�[31mb")


def test_nothing_is_an_empty_line():
    assert redacted([]) == ""


@pytest.mark.parametrize(
    "piece", ["a", "a=", '"', "--a ", "a:", "token=", "http://", "http://a:", '\\"', "eyJ", "a b:"]
)
def test_hostile_words_are_looked_through(piece):
    word = piece * (4096 // len(piece))
    assert redacted([word, word])


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["python", "-c", "import time\n\nfor n in (1, 2):\n\tprint(n)\n"],
         "python -c 'import time for n in (1, 2): print(n)'"),
        (["bash", "-c", "cd /data\r\ntorchrun train.py"], "bash -c 'cd /data torchrun train.py'"),
        # Where lines end is known until secrets are found.
        (["sh", "-c", "Authorization: a b\ncurl x"], "sh -c 'Authorization: *** curl x'"),
        # What is no line's end is still marked.
        (["a\x1b[5m", "\vb"], "a�[5m '�b'"),
    ],
)  # fmt: skip
def test_several_lines_are_one_with_blanks_between(words, shown):
    assert redacted(words) == shown
