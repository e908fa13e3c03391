"""A pretended Prometheus on a real socket, which understands the questions that gpumon asks."""

from __future__ import annotations

import json
import re
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gpumon.sources.prometheus.rules import ALL, PARTS, RECORDED, SAMPLED_AT
from tests.unit.sources.exporters.page_server import Answer, PageServer

JSON = (("Content-Type", "application/json"),)

_BY = re.compile(
    r"max by \(([^)]*)\) \((?:last_over_time\()?(timestamp\()?([A-Za-z0-9_:]+)"
    r"(?:\[3600s\])?(?:\{(\w+)=~\"([^\"]*)\"\})?\)?\)"
)
_PLAIN = re.compile(r"(gpumon:\w+:max) \+ 0")
_LONG = re.compile(r"([\w:]+)\{(\w+)=~\"([^\"]*)\"\}\[300s\]")


def answer_of(data: Any, **more: Any) -> Answer:
    # Without blanks, as all servers write it.
    body = json.dumps({"status": "success", "data": data, **more}, separators=(",", ":")).encode()
    return Answer(body, headers=JSON)


def labels(uuid: str = "GPU-0", host: str = "gpu01", **more: str) -> dict[str, str]:
    """Labels of one GPU; an empty one is left out."""
    number = uuid.rpartition("-")[2]
    given = {
        "UUID": uuid,
        "Hostname": host,
        "gpu": number,
        "device": f"nvidia{number}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "instance": f"{host}:9400",
        "job": "dcgm",
        **more,
    }
    return {name: text for name, text in given.items() if text}


def too_much(status: str = "422 No") -> Answer:
    """What Prometheus answers where a question is beyond its limits; Mimir answers 400, too."""
    text = "query processing would load too many samples into memory in query execution"
    body = {"status": "error", "errorType": "execution", "error": text}
    return Answer(json.dumps(body).encode(), status, headers=JSON)


class Engine(PageServer):
    """Holds series by name, each with its labels and value, all of one age."""

    def __init__(self, port: int = 0, prefix: str = "") -> None:
        super().__init__(port=port)
        self.prefix = prefix
        self.series: dict[str, list[tuple[dict[str, str], float]]] = {}
        self.age_s = 1.0
        self.ages_s: dict[str, float] = {}
        """By host, where one is of another age."""
        self.gap_s = 1.0
        self.fault: Answer | None = None
        self.refused: str | None = None
        """What no question may be about."""
        self.too_much: tuple[str, ...] = ()
        """What the server's limits allow no question about."""
        self.status_of_limits = "422 No"
        self.too_much_past: tuple[str, ...] = ()
        """What they allow no question about over time."""
        self.most_steps: int | None = None
        """Of a question about the past; None: any number."""
        self.past_s = 7200.0
        """How far back the server knows anything."""
        self.grows = 0.0
        """By so much every value grows in a second of the past."""
        self.grows_by: dict[str, float] = {}
        """The same of single metrics."""
        self.warnings: list[str] = []
        self.now_s = time.time
        self.asked: list[tuple[str, dict[str, str]]] = []

    def hold(self, name: str, *rows: tuple[dict[str, str], float]) -> None:
        self.series[f"DCGM_FI_{name}"] = list(rows)

    def record(self, age_s: float = 1.0) -> None:
        """Hold what the rules make of what it holds."""
        for name, record in RECORDED.items():
            rows = self.series.get(name, [])
            made = [({k: own[k] for k in PARTS if own.get(k)}, value) for own, value in rows]
            if made:
                self.series[record] = made
        labels = {
            own["UUID"]: own for rows in self.series.values() for own, _ in rows if len(own) > 2
        }
        sampled_at = self.now_s() - age_s
        self.series[SAMPLED_AT] = [
            ({k: own[k] for k in ALL if own.get(k)}, sampled_at) for own in labels.values()
        ]

    @property
    def target(self) -> str:
        return f"prometheus+http://127.0.0.1:{self.port}{self.prefix}"

    def answer_to(self, head: bytes) -> Answer:
        if self.fault is not None:
            return self.fault
        split = urlsplit(head.split(b" ", 2)[1].decode())
        params = {name: texts[0] for name, texts in parse_qs(split.query).items()}
        path = split.path.removeprefix(f"{self.prefix}/api/v1/")
        self.asked.append((path, params))
        more = {"warnings": self.warnings} if self.warnings else {}
        if path == "label/__name__/values":
            return answer_of(sorted(self.series), **more)
        if self.refused and self.refused in params.get("query", ""):
            return Answer(b"no", "403 Forbidden")
        if any(name in params.get("query", "") for name in self.too_much):
            return too_much(self.status_of_limits)
        if path == "query":
            return answer_of(self.result(params), **more)
        if path == "query_range":
            return self.range_fault(params) or answer_of(self.long_result(params), **more)
        return Answer(b"404 page not found", "404 Not Found", (("Content-Type", "text/plain"),))

    def range_fault(self, params: dict[str, str]) -> Answer | None:
        """The answer in place of a past, as servers refuse what is too much for them."""
        if any(name in params["query"] for name in self.too_much_past):
            return too_much()
        steps = (float(params["end"]) - float(params["start"])) / float(params["step"]) + 1
        if self.most_steps is None or steps <= self.most_steps:
            return None
        return too_much()

    def long_result(self, params: dict[str, str]) -> dict[str, Any]:
        """Every step of a question; values grow by the second, as counters do."""
        by = _BY.fullmatch(params["query"])
        assert by, params["query"]
        at, end, step = (float(params[name]) for name in ("start", "end", "step"))
        times = []
        while at <= end + 0.001:
            times.append(at)
            at += step
        begun = self.now_s() - self.past_s
        result = []
        grows = self.grows_by.get(by[3], self.grows)
        for own, value in self.series.get(by[3], []):
            pairs = [
                [t, repr(t - 0.5 if by[2] else value + (t - begun) * grows)]
                for t in times
                if t >= begun
            ]
            if pairs:
                labels = {name: own[name] for name in by[1].split(",") if own.get(name)}
                result.append({"metric": labels, "values": pairs})
        return {"resultType": "matrix", "result": result}

    def result(self, params: dict[str, str]) -> dict[str, Any]:
        question, now = params["query"], self.now_s()
        if question == "time()":
            return {"resultType": "scalar", "result": [now, f"{now:.3f}"]}
        if long := _LONG.fullmatch(question):
            name, label, some = long.groups()
            times = [[now - 10 * self.gap_s + n * self.gap_s, "1"] for n in range(9)]
            rows = [own for own, _ in self.series[name] if own.get(label, "") in some.split("|")]
            result = [{"metric": row, "values": times} for row in rows]
            return {"resultType": "matrix", "result": result}
        if question == f"count({SAMPLED_AT})":
            count = len(self.series.get(SAMPLED_AT, ()))
            result = [{"metric": {}, "value": [now, f"{count}"]}] if count else []
            return {"resultType": "vector", "result": result}
        if plain := _PLAIN.fullmatch(question):
            rows = self.series.get(plain[1], [])
            result = [{"metric": own, "value": [now, repr(value)]} for own, value in rows]
            return {"resultType": "vector", "result": result}
        by = _BY.fullmatch(question)
        assert by, question
        at = float(params["time"])
        best: dict[tuple[tuple[str, str], ...], float] = {}
        for own, value in self.series.get(by[3], []):
            if by[4] and not re.fullmatch(by[5].replace("\\\\", "\\"), own.get(by[4], "")):
                continue
            age_s = self.ages_s.get(own.get("Hostname", ""), self.age_s)
            number = now - age_s if by[2] else value
            key = tuple((name, own[name]) for name in by[1].split(",") if own.get(name))
            best[key] = max(best.get(key, number), number)
        result = [{"metric": dict(key), "value": [at, repr(value)]} for key, value in best.items()]
        return {"resultType": "vector", "result": result}
