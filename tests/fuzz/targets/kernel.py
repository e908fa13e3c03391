"""What the probe reads of a node's kernel, and the monitor's wishes."""

from __future__ import annotations

import errno
import io
import json
from typing import TYPE_CHECKING, Any, Final

from gpumon.probe.holders import membership
from gpumon.probe.holders.process_tree import ProcessTrees
from gpumon.probe.holders.processes import Processes, inner_pid, rank_variables
from gpumon.probe.kernel import cgroups, filesystems, log, numa, pci, ports, pressure
from gpumon.probe.kernel.driver_files import boards, name_unopened
from gpumon.probe.kernel.host import Host, disk_bytes, interface_bytes
from gpumon.probe.kernel.local_filesystems import mounts, safe, with_data
from gpumon.probe.kernel.process_stat import AllProcesses
from gpumon.probe.main import Wishes
from gpumon.probe.rows import Row, block
from gpumon.probe.surroundings import JobFolders
from tests.fuzz import mutation, oracle, workplace
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from random import Random

    from tests.fuzz.target import Target as _Target

_KERNEL: Final = "probe/kernel/"
_HOLDERS: Final = "probe/holders/"
NOW: Final = 5215.0

CGROUPS: Final = (
    "12:pids:/gmlab/gpu03\n11:devices:/slurm_gpu03/uid_7001/job_3/step_0/task_1\n1:name=systemd:/init.scope\n",
    "0::/system.slice/gpu02_slurmstepd.scope/job_2/step_0/user/task_2\n",
    "0::/system.slice/slurmstepd.scope/s8FXKTA79XAR00/step_batch/user/task_0\n",
    "4:cpu,cpuacct:/slurm/uid_7001/job_3/step_batch\n0::/user.slice/session-1.scope\n",
    "0::/kubepods.slice/cri-containerd-" + "3f4a" * 16 + ".scope\n",
    "3:pids:/docker/" + "3f4a" * 16 + "\n",
)
MOUNTINFO: Final = (
    "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
    "21 20 0:5 /home/ada/enroot/data/pyxis_3_image / rw - overlay overlay rw\n",
    "21 20 0:5 /run/enroot/ada/ubuntu+22.04 / rw - ext4 /dev/sda1 rw\n",
)
STATUS: Final = (
    "Name:\tpython\nNSpid:\t77\t12\nCpus_allowed_list:\t0-3,8\nThreads:\t4\n",
    "Name:\tpython\nCpus_allowed_list:\t0-7,64-71,128-135\n",
)
STATS: Final = (
    "77 (python) S 1 77 77 0 -1 4194560 1 2 3 4 500 60 7 8 20 0 1 0 12345 9 900",
    "77 (a) b (c) T 1 77 77 0 -1 4194560 1 2 3 4 500 60 7 8 20 0 1 0 12345 9 900",
)
ENVIRON: Final = (
    "RANK=3\0LOCAL_RANK=1\0PATH=/bin\0SLURM_JOB_ID=3\0SLURM_PROCID=2\0",
    "HOME=/root\0",
)
PROC: Final = {
    "stat": STATS,
    "status": STATUS,
    "cgroup": CGROUPS,
    "environ": ENVIRON,
    "comm": ("python\n", "a b\n"),
    "io": ("rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\n",),
    "statm": ("4721 3523 1669 691 0 2279 0\n",),
    "schedstat": ("123456789 98765432 1234\n",),
    "mountinfo": MOUNTINFO,
}
FAMILY: Final = {
    "proc/77/stat": STATS,
    "proc/78/stat": ("78 (python) R 77 77 77 0 -1 4194560 1 2 3 4 50 6 7 8 20 0 1 0 12400 9 90",),
    "proc/79/stat": ("79 (python) S 78 77 77 0 -1 4194560 1 2 3 4 50 6 7 8 20 0 1 0 0 9 90",),
    "proc/80/stat": ("80 (python) Z 79 77 77 0 -1 4194560 1 2 3 4 50 6 7 8 20 0 1 0 12700 0 0",),
}
MOUNTSTATS: Final = (
    "device proc mounted on /proc with fstype proc\n"
    "device filer:/home mounted on /home with fstype nfs4 statvers=1.1\n\tage:\t52\n"
    "\tbytes:\t100 200 0 0 4096 8192 1 2\n\tper-op statistics\n"
    "\t        NULL: 1 1 0 44 24 0 0 0 0\n\t        READ: 10 12 1 1840 5320 3 50 70 0\n"
    "\t       WRITE: 4 4 0 17000 640 1 20 44 2\n",
    "device filer:/scratch\\040two mounted on /scratch\\040two with fstype nfs statvers=1.1\n",
    "device gpfs0 mounted on /gpfs with fstype gpfs\ndevice /dev/sda1 mounted on / with fstype ext4\n",
    "device 10.0.0.1@o2ib:/work mounted on /work with fstype lustre\n",
)
MOUNTED: Final = (
    "27 1 254:0 / / rw - ext4 /dev/vda rw\n24 27 0:6 / /dev rw - devtmpfs none rw\n"
    "25 24 0:23 / /dev/shm rw,nosuid shared:3 - tmpfs tmpfs rw\n",
    "27 1 254:0 / / rw - xfs /dev/vda rw\n30 27 0:9 / /data\\040two rw - nfs4 filer:/d rw\n"
    "31 30 8:1 /home /data\\040two/x ro - xfs /dev/sda1 rw\n",
)
LLITE: Final = (
    "snapshot_time             1700000000.123456789 secs.nsecs\n"
    "read_bytes                5 samples [bytes] 4096 1048576 3149824 3300000000000\n"
    "write_bytes               2 samples [bytes] 10 20 30 500\n"
    "read                      5 samples [usecs] 12 900 1500 900000\n",
    "snapshot_time 1700000000.1 secs.usecs\nopen 9 samples [regs]\nwrite 2 samples [usec] 10 30 40 1000\n",
)
HOST: Final = {
    "proc/loadavg": ("3.25 2.00 1.00 1/234 5678\n",),
    "proc/uptime": ("5215.71 8448.63\n",),
    "proc/stat": ("cpu  100 10 20 800 50 1 2 3 7 0\ncpu0 100 10 20 800 50 1 2 3 7 0\n",),
    "proc/meminfo": (
        "MemTotal: 1056000000 kB\nMemAvailable: 1000 kB\nSwapTotal: 8 kB\nSwapFree: 0 kB\n",
    ),
    "proc/net/dev": (
        "Inter-| Receive\n face |bytes\n  eth0: 1000 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n  ib0:2 1\n",
    ),
    "proc/diskstats": (
        " 259 0 nvme0n1 5 0 10 3 7 0 20 4 0 1 1\n 7 0 loop0 9 0 9 0 9 0 9 0 0 0 0\n",
    ),
    "proc/pressure/cpu": ("some avg10=1.92 avg60=1.96 avg300=6.68 total=232278705\n",),
    "proc/pressure/memory": (
        "some avg10=50.00 avg60=0 total=1\nfull avg10=25.00 avg60=0 total=1\n",
    ),
    "proc/sys/kernel/random/boot_id": ("94ab5641-0b2b-4b26-9b32-3314fbba0e5e\n",),
    "proc/mounts": ("proc /proc proc rw,hidepid=2 0 0\n", "proc /proc proc rw 0 0\n"),
    "sys/devices/system/cpu/online": ("0-7,16\n",),
    "sys/block/nvme0n1/device/model": ("disk\n",),
    "sys/class/net/eth0/device/vendor": ("0x15b3\n",),
    "proc/77/stat": STATS,
}
GROUP: Final = {
    "cpu.stat": ("usage_usec 5000000\nuser_usec 4000000\n",),
    "cpuset.cpus.effective": ("0-7,16,20-21\n",),
    "memory.current": ("1000\n",),
    "memory.max": ("max\n", "9223372036854771712\n"),
    "memory.peak": ("2\n",),
    "memory.events": ("low 0\noom 2\noom_kill 1\n",),
    "cgroup.procs": ("10\n11\n",),
    "io.stat": ("8:0 rbytes=100 wbytes=200 rios=1\n259:1 rbytes=1 wbytes=2 dbytes=9\n",),
    "cpu.pressure": ("some avg10=10.00 avg60=1\nfull avg10=0.00 avg60=0\n",),
}
GROUP_1: Final = {
    "cpuacct/slurm/uid_1/job_3/cpuacct.usage": ("7000999\n",),
    "memory/slurm/uid_1/job_3/memory.oom_control": ("oom_kill_disable 0\noom_kill 4\n",),
    "memory/slurm/uid_1/job_3/memory.limit_in_bytes": ("9223372036854771712\n", "30\n"),
    "blkio/slurm/uid_1/job_3/blkio.throttle.io_service_bytes": (
        "8:0 Read 5\n8:0 Write 6\nTotal 61\n",
    ),
    "freezer/slurm/uid_1/job_3/step_0/cgroup.procs": ("1\n2\n3\n",),
    "unified/cgroup.procs": ("",),
}
PORT: Final = {
    "state": ("4: ACTIVE\n",),
    "phys_state": ("5: LinkUp\n",),
    "link_layer": ("InfiniBand\n",),
    "rate": ("400 Gb/sec (4X NDR)\n", "2.5 Gb/sec (1X SDR)\n"),
    "counters/port_xmit_data": ("1000\n",),
    "counters/port_rcv_errors": ("N/A (no PMA)\n", "7\n"),
    "hw_counters/np_cnp_sent": ("8\n",),
}
NUMA: Final = {
    "node0/cpulist": ("0-3,8\n",),
    "node0/distance": ("10 21\n",),
    "node1/cpulist": ("4-7\n",),
    "node1/distance": ("21 10\n",),
    "nodes/cpulist": ("0-1\n",),
    "status": (*STATUS, "Name: x\nCpus_allowed_list:\t" + "0,2," * 100 + "7\n", "Name: x\n"),
}
BOARD: Final = (
    "Model: \t\t NVIDIA L40S\nIRQ:   \t\t 214\nGPU UUID: \t GPU-1\nBus Location: \t 0000:1b:00.0\n"
    "Device Minor: \t 3\nGPU Excluded:\t No\n",
    "Model: \t NVIDIA H100\nGPU UUID: \t GPU-????\nDevice Minor: \t x\nGPU Excluded:\t Yes\n",
)
KMSG: Final = (
    "6,1234,5215000000,-;NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', GPU has fallen off.",
    "4,1235,5216000000,-;NVRM: Xid (0000:1b:00.0): 13, Graphics Exception",
    "6,1236,5217000000,-;usb 1-1: new",
    "error 1",
    "error 22",
    "error 333",
)
BUSES: Final = ("00000000:1B:00.0", "0000:1b:00.0", "1b:00", "1B:00.7", "domain")

Tree = dict[str, str]


def _tree_made(parts: Mapping[str, tuple[str, ...]]) -> Callable[[Random], Tree]:
    """Files of which one or two are changed, and now and then one is not there."""

    def make(rng: Random) -> Tree:
        made = {name: rng.choice(texts) for name, texts in parts.items()}
        for name in rng.choices(list(parts), k=rng.choice((1, 1, 2, 3))):
            made[name] = mutation.text(rng, parts[name], "", 2)
        if rng.random() < 0.2:
            made.pop(rng.choice(list(made)))
        return made

    return make


def _laid(name: str, given: Tree) -> Path:
    """The files, below a folder that is otherwise as it was."""
    root = workplace.folder() / name
    before = set(_LAID.get(name, ()))
    for gone in before - given.keys():
        (root / gone).unlink()
    for path, text in given.items():
        place = root / path
        if path not in before:
            place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode("utf-8", "surrogatepass"))
    _LAID[name] = tuple(given)
    return root


_LAID: Final[dict[str, tuple[str, ...]]] = {}


def _rows(rows: list[Row]) -> None:
    """Rows as they go on the wire: JSON with no number that is none."""
    json.dumps(block(rows), allow_nan=False)


def _processes(given: Tree) -> None:
    root = _laid("processes", {f"77/{name}": text for name, text in given.items()})
    reader = Processes(str(root), str(root))
    for now in (NOW, NOW + 31.0):
        _rows(reader.rows([77, 78], now))
    reader.jobs()


def _process_trees(given: Tree) -> None:
    """Two scans, between which whole processes change their places or go."""
    trees = ProcessTrees(AllProcesses(str(_laid("trees", given))))
    texts = list(given.values())
    turned = dict(zip(given, texts[1:] + texts[:1], strict=True))
    for now, files in (
        (NOW, given),
        (NOW + 40.0, turned),
        (NOW + 80.0, dict(list(given.items())[1:])),
    ):
        _laid("trees", files)
        rows = [Row(str(pid), now) for pid in (77, 78, 79)]
        for row, start in zip(rows, (123.45, 124.0, 0.0), strict=True):
            row.values["start_time_s"] = start
        trees.add_to(rows, now)
        _rows(rows)


def _membership(given: str) -> None:
    membership.membership(given)
    membership.container(given)
    membership.enroot(given)
    inner_pid(given)
    found = rank_variables(given.replace(" ", "\0").encode("utf-8", "surrogatepass"))
    if any(len(value) > 256 for value in found.values()):
        raise oracle.BrokenError("a variable of any length")


def _host(given: Tree) -> None:
    host = Host(str(_laid("host", given)), scans=len(given) % 2 == 0)
    for now in (NOW, NOW + 1.0, NOW + 31.0, NOW + 70.0):
        _rows([host.read(now)])


def _host_texts(given: str) -> None:
    wanted = frozenset(("eth0", "ib0", "nvme0n1"))
    oracle.well_formed(
        [min(2**63, n) for n in (*interface_bytes(given, wanted), *disk_bytes(given, wanted))]
    )
    pressure.parse(given)
    for read in (ports.speed_gbps, cgroups.cpus, numa.cpu_list, cgroups.limit):
        try:
            read(given)
        except ValueError:
            continue


def _cgroups(given: Tree) -> None:
    root = _laid("cgroups", {f"sys/fs/cgroup/job/{name}": text for name, text in given.items()})
    reader = cgroups.Cgroups(str(root))
    reader._outputs = _NoOutputs()  # type: ignore[assignment]
    _rows(reader.rows(NOW, {"3": {"": "/job"}}))


class _NoOutputs:
    def ask(self, jobs: object) -> None:
        """No one is asked."""

    def add_to(self, row: object) -> None:
        """Nothing is known."""


def _cgroups_1(given: Tree) -> None:
    root = _laid("cgroups-1", {f"sys/fs/cgroup/{name}": text for name, text in given.items()})
    reader = cgroups.Cgroups(str(root))
    reader._outputs = _NoOutputs()  # type: ignore[assignment]
    jobs = JobFolders(str(root)).beside(NOW, {}, 8)
    _rows(reader.rows(NOW, jobs))


def _filesystems(given: Tree) -> None:
    root = _laid("filesystems", given)
    _rows(filesystems.Filesystems(str(root)).rows(NOW))


def _local_filesystems(given: str) -> None:
    every = mounts(given.encode("utf-8", "surrogatepass"))
    with_data(every)
    if any(mount.kind == "nfs4" for mount in safe(every)):
        raise oracle.BrokenError("a network mount would be asked")


def _ports(given: Tree) -> None:
    root = _laid(
        "ports", {f"sys/class/infiniband/mlx5_0/ports/1/{name}": t for name, t in given.items()}
    )
    reader = ports.Ports(str(root))
    _rows(reader.rows(NOW, {"GPU-1": "0000:1b:00.0"}))
    _rows(reader.rows(NOW + 1.0, {}))


def _numa(given: Tree) -> None:
    nodes = {f"sys/devices/system/node/{name}": text for name, text in given.items()}
    found = numa.Numa(str(_laid("numa", nodes)))
    for status in (given.get("status", ""), *STATUS):
        allowed = found.allowed(status)
        if allowed is not None and len(allowed.listed) > numa.MAX_LIST + 2:
            raise oracle.BrokenError("a list of any length")
    len(found.distances)


def _boards(given: Tree) -> None:
    place = "proc/driver/nvidia/gpus/0000:1b:00.0"
    root = _laid("boards", {f"{place}/{name}": text for name, text in given.items()})
    gpu = Row("GPU-0", NOW)
    gpu.values.update({"index": 0, "open_error": 15})
    name_unopened([gpu], boards(str(root)))
    _rows([gpu])


def _log(given: str) -> None:
    lines = given.split("\n")
    (workplace.folder() / "dev").mkdir(exist_ok=True)
    workplace.file("dev/kmsg", b"")
    found = log.KernelLog(str(workplace.folder()), lambda _file, most: _next(lines, most))
    _rows(found.rows(NOW + 10.0, {"GPU-1": BUSES[0]}))
    if found._file >= 0:
        found._close()


def _next(lines: list[str], most: int) -> bytes:
    if not lines:
        raise BlockingIOError(errno.EAGAIN, "nothing yet")
    line = lines.pop(0)
    if line.startswith("error "):
        raise OSError(_ERRORS[len(line) % len(_ERRORS)], "as the kernel may answer")
    return line.encode("utf-8", "surrogatepass")[:most]


_ERRORS: Final = (errno.EPIPE, errno.EINTR, errno.EIO, errno.EPERM)


def _bus(given: str) -> None:
    found = pci.normal(given)
    if found and not pci.FUNCTION.match(found):
        raise oracle.BrokenError(found)


def _wishes(given: str) -> None:
    wishes = Wishes(io.BytesIO(given.encode("utf-8", "surrogatepass")), 1.0)
    wishes.listen()
    oracle.well_formed(wishes.period_s)
    if wishes.period_s < 0.1:
        raise oracle.BrokenError(wishes.period_s)


def _files(
    name: str,
    run: Any,
    parts: Mapping[str, tuple[str, ...]],
    *modules: str,
    aside: tuple[str, ...] = (),
) -> _Target:
    return Target(
        name, _tree_made(parts), run, tuple(_KERNEL + one for one in modules), aside=aside
    )


TARGETS: Final = (
    Target(
        "kernel.processes",
        _tree_made(PROC),
        _processes,
        (_HOLDERS + "processes.py",),
        aside=("Processes._strange", "Processes._namespace"),
    ),
    Target(
        "kernel.process_trees",
        _tree_made(FAMILY),
        _process_trees,
        (_KERNEL + "process_stat.py", _HOLDERS + "process_tree.py"),
        aside=("AllProcesses._hides", "thread_cpu_s"),
    ),
    Target(
        "kernel.membership",
        lambda rng: mutation.text(rng, (*CGROUPS, *MOUNTINFO, *STATUS, *ENVIRON), ""),
        _membership,
        (_HOLDERS + "membership.py",),
    ),
    _files("kernel.host", _host, HOST, "host.py", aside=("Host._is_hidden",)),
    Target(
        "kernel.texts",
        lambda rng: mutation.text(
            rng,
            (
                *HOST["proc/net/dev"],
                *HOST["proc/diskstats"],
                *HOST["proc/pressure/memory"],
                *PORT["rate"],
                "0-3,8,10-11\n",
                "max\n",
            ),
            "",
        ),
        _host_texts,
        (_KERNEL + "pressure.py",),
        aside=("read",),
    ),
    _files("kernel.cgroups", _cgroups, GROUP, "cgroups.py", aside=("io_v1", "Cgroups._folder")),
    _files("kernel.cgroups_1", _cgroups_1, GROUP_1),
    _files(
        "kernel.filesystems",
        _filesystems,
        {"proc/self/mountstats": MOUNTSTATS, "proc/fs/lustre/llite/work-ff00/stats": LLITE},
        "filesystems.py",
    ),
    Target(
        "kernel.local_filesystems",
        lambda rng: mutation.text(rng, MOUNTED, ""),
        _local_filesystems,
        (_KERNEL + "local_filesystems.py",),
        aside=(
            "space",
            *(f"LocalFilesystems.{name}" for name in ("rows", "_errors", "_ask_all", "_run")),
        ),
    ),
    _files("kernel.ports", _ports, PORT, "ports.py", aside=("_near",)),
    _files("kernel.numa", _numa, NUMA, "numa.py"),
    _files("kernel.boards", _boards, {"information": BOARD}, "driver_files.py"),
    Target(
        "kernel.log",
        lambda rng: mutation.text(rng, KMSG),
        _log,
        (_KERNEL + "log.py",),
        aside=("only_logged", "KernelLog.__init__"),
    ),
    Target("kernel.bus_ids", lambda rng: mutation.text(rng, BUSES, "", 1), _bus, ()),
    Target(
        "probe.wishes",
        lambda rng: mutation.text(rng, ("period 2.5", "zoom GPU-1,GPU-2", "zoom off", "alive")),
        _wishes,
        ("probe/main.py",),
        aside=(
            "Pieces",
            "of_this_task",
            "Wishes.watch",
            "Wishes.start",
            "_end_after",
            "main",
            "report",
            "_give_back_memory",
            "send",
        ),
    ),
)
