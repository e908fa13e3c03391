"""The catalogue's fields of a node and of what surrounds its GPUs: ports, mounts, jobs' cgroups."""

from __future__ import annotations

from typing import Final

from gpumon.model.catalogue.field import ANY_COUNT, Field, Kind

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - nothing is written there
"""Where Linux mounts the memory that processes share."""

ANY_RATE: Final = 8e12
"""Bytes per second beyond every link and file system of today: a counter was reset."""

ANY_NUMBER: Final = 1e9
"""Upper bound of what is counted in pieces: processes, operations a second."""


class _Fields:
    """Makes the fields of one block, in the forms that recur."""

    def __init__(self, block: str) -> None:
        self._block = block

    def _field(
        self, key: str, kind: Kind, title: str, doc: str, origin: str, *, unit: str, high: float
    ) -> Field:
        return Field(
            key=key,
            block=self._block,
            kind=kind,
            unit=unit,
            low=0.0,
            high=high,
            title=title,
            doc=doc,
            origin=origin,
        )

    def gauge(
        self, key: str, title: str, doc: str, origin: str, unit: str = "", high: float = ANY_NUMBER
    ) -> Field:
        """A level, a plain number unless a unit is given."""
        return self._field(key, Kind.GAUGE, title, doc, origin, unit=unit, high=high)

    def level(self, key: str, title: str, doc: str, origin: str) -> Field:
        """An amount of bytes."""
        return self.gauge(key, title, doc, origin, "bytes", ANY_COUNT)

    def ratio(self, key: str, title: str, doc: str, origin: str) -> Field:
        """A share between 0 and 1."""
        return self.gauge(key, title, doc, origin, "ratio", 1.0)

    def count(self, key: str, doc: str, origin: str, unit: str = "", title: str = "") -> Field:
        """A counter."""
        return self._field(key, Kind.COUNTER, title, doc, origin, unit=unit, high=ANY_COUNT)

    def flow(self, counter: str, title: str, doc: str, origin: str) -> tuple[Field, Field]:
        """A counter of bytes and the rate that is made of it."""
        return (
            self.count(counter, doc, origin, "bytes"),
            self.rate(f"{counter}_per_s", title, doc, f"difference of {counter}", "bytes/s"),
        )

    def rate(self, key: str, title: str, doc: str, origin: str, unit: str = "1/s") -> Field:
        """What a source derives from two readings of a counter."""
        high = ANY_RATE if unit == "bytes/s" else ANY_NUMBER
        return self._field(key, Kind.RATE, title, doc, origin, unit=unit, high=high)

    def pressures(self, prefix: str, whose: str, folder: str, titled: str) -> tuple[Field, ...]:
        """Pressure stall shares of CPU, memory and I/O, of some and of all tasks."""
        return tuple(
            self.ratio(
                f"{prefix}{what}_pressure_{part}_ratio",
                f"{titled}{short}{part.upper()}",
                f"Share of the last 10 s in which {who} {whose} waited for {waited}.",
                f"{folder}{file} {part} avg10",
            )
            for what, short, file, waited in (
                ("cpu", "CPU", "cpu", "a CPU"),
                ("mem", "MEM", "memory", "memory"),
                ("io", "IO", "io", "I/O"),
            )
            for part, who in (("some", "some task"), ("full", "every task"))
        )


_NODE: Final = _Fields("node")
_NIC: Final = _Fields("nic")
_FILESYSTEM: Final = _Fields("filesystem")
_LOCAL_FILESYSTEM: Final = _Fields("local_filesystem")
_CGROUP: Final = _Fields("cgroup")

NODE_FIELDS: Final = (
    _NODE.gauge("cpu_count", "CPUS", "Logical CPUs.", "/sys/devices/system/cpu/online", high=65536),
    _NODE.ratio(
        "cpu_busy_ratio",
        "CPU",
        "Share of all CPUs' time that was neither idle nor waiting for I/O.",
        "differences of cpu_busy_ticks and cpu_total_ticks",
    ),
    _NODE.ratio(
        "cpu_iowait_ratio",
        "IOWAIT",
        "Share of all CPUs' time that was idle while a task of that CPU waited for a disk.",
        "differences of cpu_iowait_ticks and cpu_total_ticks",
    ),
    _NODE.count("cpu_busy_ticks", "Ticks of all CPUs spent working.", "/proc/stat cpu"),
    _NODE.count("cpu_iowait_ticks", "Ticks of all CPUs spent waiting for I/O.", "/proc/stat cpu"),
    _NODE.count("cpu_total_ticks", "Ticks of all CPUs.", "/proc/stat cpu"),
    _NODE.gauge("load_1m", "LOAD", "Load average over a minute.", "/proc/loadavg", high=1e6),
    _NODE.gauge("load_5m", "LOAD5", "Load average over five minutes.", "/proc/loadavg", high=1e6),
    _NODE.gauge(
        "load_15m", "LOAD15", "Load average over fifteen minutes.", "/proc/loadavg", high=1e6
    ),
    _NODE.level("host_mem_total_bytes", "HOSTMEM", "Memory of the host.", "/proc/meminfo MemTotal"),
    _NODE.level(
        "host_mem_available_bytes",
        "HOSTFREE",
        "Host memory that a new process could use.",
        "/proc/meminfo MemAvailable",
    ),
    _NODE.level("host_swap_total_bytes", "SWAP", "Swap space.", "/proc/meminfo SwapTotal"),
    _NODE.level("host_swap_free_bytes", "SWAPFREE", "Unused swap.", "/proc/meminfo SwapFree"),
    *_NODE.pressures("", "of the node", "/proc/pressure/", "PSI"),
    _NODE.gauge(
        "d_state_process_count",
        "DSTATE",
        "Processes in uninterruptible sleep: a wedged driver or file system shows here.",
        "/proc/PID/stat state D, every 30 s",
    ),
    *_NODE.flow(
        "net_rx_bytes",
        "NET RX",
        "Received by the physical network interfaces, RDMA apart.",
        "/proc/net/dev",
    ),
    *_NODE.flow(
        "net_tx_bytes",
        "NET TX",
        "Sent by the physical network interfaces, RDMA apart.",
        "/proc/net/dev",
    ),
    *_NODE.flow(
        "disk_read_bytes",
        "DISK RD",
        "Read from the physical disks.",
        "/proc/diskstats, sectors of 512 bytes",
    ),
    *_NODE.flow(
        "disk_write_bytes",
        "DISK WR",
        "Written to the physical disks.",
        "/proc/diskstats, sectors of 512 bytes",
    ),
    _NODE.count("probe_calls", "Calls of the probe into the driver.", "counted by the probe"),
    _NODE.rate(
        "probe_calls_per_s",
        "CALLS/S",
        "Calls of the probe into the driver: what watching asks of it.",
        "difference of probe_calls",
    ),
    _NODE.count(
        "probe_driver_us",
        "Time of the probe inside the driver; a call that has not returned is not in it.",
        "measured by the probe",
        "us",
    ),
    _NODE.ratio(
        "probe_driver_ratio",
        "DRIVER",
        "Share of time that the probe spent inside the driver: what watching costs the GPUs.",
        "difference of probe_driver_us",
    ),
    _NODE.gauge(
        "probe_slowest_call_s",
        "SLOWEST",
        "Longest call of the probe into the driver once it was open; slowest_call names it.",
        "measured by the probe",
        "s",
    ),
    _NODE.gauge(
        "uptime_s", "UP", "Time since the node was booted.", "/proc/uptime", "s", ANY_COUNT
    ),
)

_PORT: Final = "/sys/class/infiniband/DEVICE/ports/PORT/"

NIC_ERRORS: Final = {
    "symbol_error": "Symbol errors of the physical link.",
    "link_error_recovery": "Times that the link recovered by itself.",
    "link_downed": "Times that the link went down.",
    "port_rcv_errors": "Packets received with an error.",
    "port_xmit_discards": "Packets not sent, because the port was down or congested.",
    "local_link_integrity_errors": "Times that local errors passed the port's threshold.",
    "excessive_buffer_overrun_errors": "Times that the receive buffer overran.",
}
"""Files of `counters` by their catalogue keys without `nic_`; they saturate at 255 or 65535."""

NIC_ROCE: Final = {
    "out_of_sequence": "Packets received out of sequence.",
    "packet_seq_err": "Negative acknowledgements received for a sequence error.",
    "local_ack_timeout_err": "Acknowledgements that did not come in time.",
    "np_cnp_sent": "Congestion notifications sent.",
    "np_ecn_marked_roce_packets": "Received packets that a switch marked as congested.",
}
"""Files of `hw_counters` by their catalogue keys without `nic_`."""

NIC_FIELDS: Final = (
    _NIC.gauge("nic_speed_gbps", "SPEED", "Data rate of the link.", f"{_PORT}rate", "Gb/s", 1e5),
    *_NIC.flow(
        "nic_tx_bytes", "TX", "Sent by the port.", f"{_PORT}counters/port_xmit_data, words of 4"
    ),
    *_NIC.flow(
        "nic_rx_bytes", "RX", "Received by the port.", f"{_PORT}counters/port_rcv_data, words of 4"
    ),
    *(_NIC.count(f"nic_{n}", doc, f"{_PORT}counters/{n}") for n, doc in NIC_ERRORS.items()),
    *(_NIC.count(f"nic_{n}", doc, f"{_PORT}hw_counters/{n}") for n, doc in NIC_ROCE.items()),
    Field(
        "nic_numa_node",
        "nic",
        Kind.ID,
        "",
        low=0,
        high=65536,
        title="NUMA",
        doc="NUMA node to which the adapter is attached.",
        origin="/sys/class/infiniband/DEVICE/device/numa_node",
    ),
)

_NFS: Final = "/proc/self/mountstats"
_BYTES: Final = f"{_NFS} bytes (server side), Lustre llite stats"
_OPS: Final = f"{_NFS} per-op statistics, Lustre llite stats"


def _operation(name: str, title: str) -> tuple[Field, ...]:
    """What is known of the reads or the writes of a mount."""
    return (
        _FILESYSTEM.count(f"fs_{name}_ops", f"{name.title()} requests.", _OPS),
        _FILESYSTEM.rate(
            f"fs_{name}_ops_per_s",
            f"{title}/S",
            f"{name.title()} requests.",
            f"difference of fs_{name}_ops",
        ),
        _FILESYSTEM.count(
            f"fs_{name}_rtt_us",
            f"Time that {name} requests spent between client and server, summed.",
            f"{_NFS} per-op rtt",
            "us",
        ),
        _FILESYSTEM.count(
            f"fs_{name}_exec_us",
            f"Time that {name} requests took from start to end, queueing included, summed.",
            f"{_NFS} per-op execute, Lustre llite stats",
            "us",
        ),
        _FILESYSTEM.gauge(
            f"fs_{name}_rtt_s",
            f"{title} RTT",
            f"Mean time of a {name} request between client and server.",
            f"differences of fs_{name}_rtt_us and fs_{name}_ops",
            "s",
        ),
        _FILESYSTEM.gauge(
            f"fs_{name}_exec_s",
            f"{title} TIME",
            f"Mean time of a {name} request from start to end.",
            f"differences of fs_{name}_exec_us and fs_{name}_ops",
            "s",
        ),
    )


FILESYSTEM_FIELDS: Final = (
    *_FILESYSTEM.flow("fs_read_bytes", "READ", "Read from the servers of the mount.", _BYTES),
    *_FILESYSTEM.flow("fs_write_bytes", "WRITE", "Written to the servers of the mount.", _BYTES),
    *_operation("read", "RD"),
    *_operation("write", "WR"),
    _FILESYSTEM.count("fs_retransmits", "Requests that were sent again.", f"{_NFS} trans - ops"),
    _FILESYSTEM.count("fs_timeouts", "Requests that had a major timeout.", f"{_NFS} timeouts"),
)

LOCAL_FILESYSTEM_FIELDS: Final = (
    _LOCAL_FILESYSTEM.level(
        "size_bytes", "SIZE", "Size of the file system.", "statvfs f_blocks"
    )._replace(is_kept=False),
    _LOCAL_FILESYSTEM.level(
        "used_bytes", "USED", "How much of it is used.", "statvfs f_blocks - f_bfree"
    )._replace(is_kept=False),
    _LOCAL_FILESYSTEM.level(
        "free_bytes",
        "FREE",
        "What users other than root may still fill.",
        "statvfs f_bavail",
    ),
)
"""Entities are mount points of kinds that live on the node itself."""

CGROUP_FIELDS: Final = (
    _CGROUP.count(
        "job_cpu_us",
        "CPU time that the job's processes on this node used.",
        "cpu.stat usage_usec, cpuacct.usage",
        "us",
    ),
    _CGROUP.gauge(
        "job_cpu_cores_used",
        "CORES",
        "CPU cores that the job used on this node, on average between two readings.",
        "difference of job_cpu_us",
    ),
    _CGROUP.gauge(
        "job_cpu_count",
        "CPUS",
        "Logical CPUs that the job may use on this node.",
        "cpuset.cpus.effective, cpuset.effective_cpus",
    ),
    _CGROUP.level(
        "job_mem_used_bytes",
        "MEM",
        "Host memory charged to the job, page cache included.",
        "memory.current, memory.usage_in_bytes",
    ),
    _CGROUP.level(
        "job_mem_peak_bytes",
        "PEAK",
        "Most host memory ever charged to the job.",
        "memory.peak, memory.max_usage_in_bytes",
    ),
    _CGROUP.level(
        "job_mem_limit_bytes",
        "LIMIT",
        "Host memory at which the kernel stops the job.",
        "memory.max, memory.limit_in_bytes",
    ),
    _CGROUP.count(
        "job_oom_kills",
        "Processes of the job that the kernel killed for memory.",
        "memory.events oom_kill, memory.oom_control oom_kill",
        title="OOM",
    ),
    *_CGROUP.flow(
        "job_io_read_bytes",
        "READ",
        "Read from block devices; network file systems do not show here.",
        "io.stat rbytes, blkio.throttle.io_service_bytes",
    ),
    *_CGROUP.flow(
        "job_io_write_bytes",
        "WRITE",
        "Written to block devices; network file systems do not show here.",
        "io.stat wbytes, blkio.throttle.io_service_bytes",
    ),
    *_CGROUP.flow(
        "job_output_bytes",
        "OUT",
        "Size of the files behind standard output and error of the job's processes on this node, "
        "what came before them included; nothing of their content is read.",
        "stat of /proc/PID/fd/1 and 2",
    ),
    _CGROUP.gauge(
        "job_output_age_s",
        "OUT AGE",
        "Time since the newest write to these files, by the node's clock.",
        "stat of /proc/PID/fd/1 and 2",
        "s",
    ),
    *_CGROUP.pressures("job_", "of the job", "cgroup v2 *.pressure: ", "PSI"),
    _CGROUP.gauge(
        "job_process_count", "PROCS", "Processes of the job on this node.", "cgroup.procs"
    ),
)
