"""Runs commands one after the other and says what each cost; a process of its own, kept small.

A child inherits its parent's peak memory until it executes its program, so the parent that measures
must be smaller than everything it measures: no imports beyond these.

Standard input: one command a line, words separated by NUL. Standard output, per command:
`exit_status wall_s cpu_s peak_rss_kib`.
"""

import os
import sys
import time


def main() -> None:
    """Answer every line of standard input."""
    null = os.open(os.devnull, os.O_RDWR)
    for line in sys.stdin:
        words = line.rstrip("\n").split("\0")
        begin = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            try:
                os.execvp(words[0], words)
            finally:
                os._exit(127)
        _, status, used = os.wait4(pid, 0)
        wall_s = time.perf_counter() - begin
        cpu_s = used.ru_utime + used.ru_stime
        code = os.waitstatus_to_exitcode(status)
        sys.stdout.write(f"{code} {wall_s:.6f} {cpu_s:.6f} {used.ru_maxrss}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
