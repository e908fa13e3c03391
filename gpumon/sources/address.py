"""What the user asks to watch, written as a URL, and how it is sampled."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.errors import InputError
from gpumon.model.hostlist import MAX_PORT
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpumon.model.records.cluster import Job
    from gpumon.sources.exporter_address import PageAddress
    from gpumon.sources.prometheus_address import EngineAddress
    from gpumon.sources.rest_address import RestAddress
    from gpumon.sources.served_address import ServedAddress

USER_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}\Z"
"""Login names that ssh's `-l` may be given."""

CLUSTER_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}\Z"
"""Names of clusters; Slurm allows forty characters and writes them lower case (slurm.conf(5))."""


DEMO: Final = r"demo(?::(?P<nodes>\d{1,5})x(?P<gpus>\d{1,3}))?"
SEED: Final = r"[0-9]{1,18}"
DEMO_SIZE: Final = (10, 8)
"""Nodes and GPUs per node of a demo fleet that names no size."""

MOST_DEMO_GPUS: Final = 131_072
"""Our choice: beyond it minutes go by before the first picture."""

NODES_BY: Final = ("ssh", "srun", "none")
"""How a Slurm target may reach the jobs' nodes; several are tried in the order given."""

TIERS: Final = ("hot", "medium", "slow")
"""The probe's tiers, read every period, every 5 s and every 30 s."""

REST_SCHEMES: Final = ("slurm+http", "slurm+https", "slurm+unix")
"""Slurm targets that are asked by slurmrestd."""

PAGE_SCHEMES: Final = ("dcgm+http", "dcgm+https")
"""Targets that are pages of exporters."""

ENGINE_SCHEMES: Final = ("prometheus+http", "prometheus+https")
"""Targets that are servers with Prometheus' interface."""

SERVED_SCHEMES: Final = ("gpumon+http", "gpumon+https", "gpumon+unix")
"""Targets that are another gpumon's `serve`."""

_BEST: Final = 2
"""Rank of what a probe reports. A choice, as all ranks: only their order counts."""


class Kind(NamedTuple):
    """What is to be known of a kind of target before its source runs."""

    forms: str
    """How such targets are written, for the message about one that is of no kind."""
    has_queue: bool
    """Whether a queue lists its jobs: `--user` then chooses jobs, else processes."""
    knows_caller: bool = True
    """Whether it shows which jobs are the caller's. Labels name no users, and another gpumon shows
    what it was started with."""
    is_far: bool = False
    """Whether answers come from elsewhere, so that the terminal asks before it is imported."""
    is_recorded: bool = False
    """Whether a server stores what it reports of GPUs, so that a second record adds nothing."""
    schemes: tuple[str, ...] = ()
    """What precedes `://` where its frames are worse than a probe's."""
    rank: int = _BEST
    """How good its frames are: of two about one GPU the higher is shown."""


KINDS: Final[Mapping[str, Kind]] = {
    "local": Kind("local", has_queue=False),
    "slurm": Kind(
        "slurm, slurm+ssh://[user@]login, slurm+http[s]://host, slurm+unix:///socket",
        has_queue=True,
        is_far=True,
    ),
    "ssh": Kind("ssh://[user@]host", has_queue=False, is_far=True),
    "exporter": Kind(
        "dcgm+http[s]://host:9400/metrics",
        has_queue=False,
        knows_caller=False,
        schemes=PAGE_SCHEMES,
        rank=1,
    ),
    "prometheus": Kind(
        "prometheus+http[s]://host:9090",
        has_queue=False,
        knows_caller=False,
        is_recorded=True,
        schemes=ENGINE_SCHEMES,
        rank=0,
    ),
    "served": Kind(
        "gpumon+http[s]://host:9777, gpumon+unix:///socket", has_queue=True, knows_caller=False
    ),
    "demo": Kind("demo[:NODESxGPUS]", has_queue=True),
    "recording": Kind("./FILE.gpumon", has_queue=True),
}
"""Every kind of target by the `scheme` of a `Target`."""

_RANKS: Final = {scheme: kind.rank for kind in KINDS.values() for scheme in kind.schemes}


class TargetError(InputError, ValueError):
    """A target is not of any known form; the message names it and the way out."""


class Hop(NamedTuple):
    """A login node through which others are reached."""

    host: str
    """A validated host name or address."""
    user: str = ""
    """A validated login name; empty: ssh's own choice."""
    port: int | None = None
    """None: ssh's own choice."""


class Target(NamedTuple):
    """One parsed target."""

    url: str
    scheme: str
    """Name of its kind, one of `KINDS`."""
    hosts: tuple[str, ...] = ()
    user: str = ""
    port: int | None = None
    nodes_by: str = "ssh,srun"
    demo_size: tuple[int, int] = DEMO_SIZE
    seed: int = 1
    rest: RestAddress | None = None
    """The slurmrestd of a Slurm target that is asked by HTTP."""
    pages: tuple[PageAddress, ...] = ()
    """The pages of exporters."""
    engine: EngineAddress | None = None
    """The server of a target with Prometheus' interface."""
    served: ServedAddress | None = None
    """The other gpumon."""
    path: str = ""
    """File or folder of a recording."""
    cluster: str = ""
    """The cluster that Slurm's commands are to ask (their `-M`); empty: their own."""

    @property
    def kind(self) -> Kind:
        """What is to be known of all targets of its kind."""
        return KINDS[self.scheme]

    @property
    def hop(self) -> Hop | None:
        """The login node behind which a Slurm target is; None: none."""
        is_behind = self.scheme == "slurm" and bool(self.hosts)
        return Hop(self.hosts[0], self.user, self.port) if is_behind else None


class Sampling(NamedTuple):
    """How a source samples: once or every period."""

    period_s: float
    is_single: bool
    """One report of each node, no second start."""
    is_wanted: Callable[[Job], bool]
    """Which jobs of a queue are wanted; only their nodes are reached."""
    has_gpm: bool = True
    """Whether the driver's performance counters (GPM) are read."""
    tiers: tuple[str, ...] = TIERS
    """Which of the probe's tiers are read."""
    user: str = ""
    """Whose ended jobs are asked for, by login name; empty: those of the user who asks."""
    everyone: bool = False
    """Whether every user's ended jobs are asked for."""
    past_s: float = 0.0
    """How much of a past a demo has at its start, seconds."""

    @property
    def probe_options(self) -> dict[str, object]:
        """Start options of every probe beyond its period."""
        return {"gpm": self.has_gpm, "tiers": list(self.tiers)}


def rank_of(origin: str) -> int:
    """How good the reports of an origin are, by its target's URL: a probe's are best."""
    # What another gpumon passes on names the kind of its own target behind it.
    return _RANKS.get(origin.rpartition("#")[2].partition(":")[0], _BEST)


def target_of(origin: str) -> str:
    """The target's URL: an origin may name a step, or a road of another gpumon, behind it."""
    return origin.partition("#")[0]


def parse(text: str) -> Target:
    """The target that a URL names.

    Raises:
        TargetError: It names none.
    """
    shown = plain(text)
    if text.startswith("ssh://"):
        return _ssh(shown, text)
    path, _, query = text.partition("?")
    options = dict(item.partition("=")[::2] for item in query.split("&") if item)
    if path == "local" and not options:
        return Target(shown, "local")
    scheme, slashes, rest = path.partition("://")
    if path == "slurm":
        return _slurm(shown, options)
    if slashes and scheme == "slurm+ssh":
        return _slurm_behind(shown, path, options)
    if slashes and scheme in REST_SCHEMES:
        return _slurm_rest(shown, scheme, rest, options)
    if slashes and scheme in PAGE_SCHEMES:
        return _pages(shown, scheme, text.partition("://")[2])
    if slashes and scheme in ENGINE_SCHEMES:
        return _engine(shown, scheme, rest, options)
    if slashes and scheme in SERVED_SCHEMES:
        return _served(shown, scheme, rest, options)
    if path.partition(":")[0] == "demo":
        return _demo(shown, path, options)
    if is_recording(text):
        return Target(shown, "recording", path=text)
    forms = ", ".join(kind.forms for kind in KINDS.values())
    message = f"{shown!r} is not a target; targets are {forms}"
    raise TargetError(message)


def is_recording(text: str) -> bool:
    """Whether a target is written as the path of a recording."""
    return text.startswith(("/", "./", "../")) or text.endswith((".gpumon", ".gpumon.zst"))


def _slurm(url: str, options: dict[str, str]) -> Target:
    by, cluster = options.pop("nodes", "ssh,srun"), options.pop("cluster", None)
    if cluster is not None and (
        not re.match(CLUSTER_NAME, cluster) or url.startswith(REST_SCHEMES)
    ):
        message = (
            f"{url!r}: ?cluster= takes the name of one cluster that Slurm's commands know (their "
            "-M); a slurmrestd answers for its own cluster"
        )
        raise TargetError(message)
    ways = by.split(",")
    if options or not set(ways) <= set(NODES_BY) or len(set(ways)) != len(ways):
        message = f"{url!r}: a Slurm target takes ?nodes= with some of " + ",".join(NODES_BY)
        raise TargetError(f"{message}, and ?cluster=NAME")
    return Target(url, "slurm", nodes_by=by, cluster=(cluster or "").lower())


def _slurm_behind(url: str, path: str, options: dict[str, str]) -> Target:
    try:
        hop = _ssh(url, path.removeprefix("slurm+"))
    except TargetError:
        hop = None
    # ssh's proxy command is read by a shell and by ssh itself, so a zone's % has no place in it.
    if hop is None or len(hop.hosts) != 1 or "%" in hop.hosts[0]:
        message = f"{url!r}: a cluster behind a login node is slurm+ssh://[user@]login[:port]"
        raise TargetError(message)
    return _slurm(url, options)._replace(hosts=hop.hosts, user=hop.user, port=hop.port)


def _slurm_rest(url: str, scheme: str, rest: str, options: dict[str, str]) -> Target:
    from gpumon.sources.rest_address import parse_address

    with _named(url, scheme, rest):
        address = parse_address(scheme, rest, options)
    return _slurm(url, options)._replace(rest=address)


def _pages(url: str, scheme: str, rest: str) -> Target:
    from gpumon.sources.exporter_address import parse_pages

    with _named(url, scheme, rest):
        return Target(url, "exporter", pages=parse_pages(scheme, rest))


def _engine(url: str, scheme: str, rest: str, options: dict[str, str]) -> Target:
    from gpumon.sources.prometheus_address import parse_engine

    with _named(url, scheme, rest):
        return Target(url, "prometheus", engine=parse_engine(scheme, rest, options))


def _served(url: str, scheme: str, rest: str, options: dict[str, str]) -> Target:
    from gpumon.sources.served_address import parse_served

    with _named(url, scheme, rest):
        return Target(url, "served", served=parse_served(scheme, rest, options))


@contextmanager
def _named(url: str, scheme: str, rest: str) -> Iterator[None]:
    """Says of what is wrong with a target which one it is.

    Raises:
        TargetError: A ValueError came from within.
    """
    try:
        yield
    except ValueError as error:
        # What it was written as may hold a password by mistake.
        message = f"{scheme}: {error}" if "@" in rest else f"{url!r}: {error}"
        raise TargetError(message) from error


def _demo(url: str, path: str, options: dict[str, str]) -> Target:
    match = re.fullmatch(DEMO, path)
    seed = options.pop("seed", "1")
    if match is None or options or not re.fullmatch(SEED, seed):
        message = f"{url!r}: a demo fleet is written demo, demo:6x8 or demo:6x8?seed=2"
        raise TargetError(message)
    size = DEMO_SIZE
    if match["nodes"]:
        size = (int(match["nodes"]), int(match["gpus"]))
    if not all(size):
        message = f"{url!r}: a demo fleet needs at least one node and one GPU"
        raise TargetError(message)
    if size[0] * size[1] > MOST_DEMO_GPUS:
        message = f"{url!r}: a demo fleet has at most {MOST_DEMO_GPUS:,} GPUs; fewer nodes will do"
        raise TargetError(message)
    return Target(url, "demo", demo_size=size, seed=int(seed))


def _ssh(url: str, text: str) -> Target:
    from gpumon.model.hostlist import expand, is_host_name

    authority = text.removeprefix("ssh://").rstrip("/")
    user, _, rest = authority.rpartition("@")
    match = re.fullmatch(r"(?P<hosts>.+?)(?::(?P<port>\d{1,5}))?", rest)
    try:
        hosts = expand(match["hosts"]) if match else ()
    except ValueError as error:
        message = f"{url!r}: {error}"
        raise TargetError(message) from error
    wrong = [host for host in hosts if not is_host_name(host)]
    port = int(match["port"]) if match and match["port"] else None
    if port is not None and not 0 < port <= MAX_PORT:
        wrong.append(str(port))
    if not hosts or wrong or (user and not re.match(USER_NAME, user)):
        message = (
            f"{url!r}: ssh targets are written ssh://[user@]host[:port], host[001-128] allowed"
        )
        raise TargetError(message)
    return Target(url, "ssh", hosts=hosts, user=user, port=port)
