"""Runs a command under a memory limit and says what it used.

    memrun.py [--limit 3G] [--cold PATH ...] [--quiet SECONDS] [--json] -- COMMAND ...

The command gets a memory cgroup of its own (version 2, or 1 where the machine has that), below this process's, so the
page cache that it fills is counted and bounded too. Needs the right to make cgroups: root, as a rule.

Printed after the command's own output: wall, user and system seconds, peak resident set, the cgroup's peak (anonymous
memory and page cache), bytes read from the disk, major faults, and how many cores other processes kept busy meanwhile,
without which no timing can be trusted. The exit status is the command's, or 128 + the signal that ended it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

IDLE_SHARE = 0.10  # of the cores: busier than this is not quiet


@dataclass
class Cgroup:
    """A memory cgroup, and the names its version has for what is needed here."""

    path: Path
    limit_file: str
    peak_file: str

    @property
    def peak(self) -> int:
        return int((self.path / self.peak_file).read_text())

    def join(self) -> None:
        """Moves the calling process into the group."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        """Removes the group once the kernel has let go of its last process."""
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


def make_cgroup(limit: int) -> Cgroup:
    """A new group below this process's; `limit` in bytes, 0: none. OSError if that is not allowed."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    first = next((m[1] for m in mounts if m[2] == "cgroup" and "memory" in m[3].split(",")), None)
    second = next((m[1] for m in mounts if m[2] == "cgroup2"), None)
    if first:
        below = next(path for _, controllers, path in own if "memory" in controllers.split(","))
        root, files = first, ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
    elif second:
        below = next(path for number, _, path in own if number == "0")
        root, files = second, ("memory.max", "memory.peak")
    else:
        raise OSError("no memory cgroup is mounted")
    group = Cgroup(Path(root) / below.lstrip("/") / f"memrun-{os.getpid()}", *files)
    group.path.mkdir()
    try:
        if limit:
            (group.path / group.limit_file).write_text(str(limit))
        _ = group.peak
    except OSError:
        group.remove()
        raise
    return group


def parse_size(text: str) -> int:
    """Bytes of "3G", "4400M", "512K" or a plain number; units are powers of 1024."""
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    try:
        size = int(float(text[:-1]) * (1 << unit)) if unit else int(text)
    except ValueError:
        size = 0
    if size <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it like 3G or 4400M")
    return size


def drop_from_page_cache(path: Path) -> None:
    """A file, or every file below a folder."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def cpu_ticks() -> tuple[int, int]:
    """Busy and all clock ticks of the cores since boot."""
    user, nice, system, idle, wait, interrupt, soft, steal = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    busy = user + nice + system + interrupt + soft + steal
    return busy, busy + idle + wait


def wait_until_quiet(seconds: float) -> None:
    """Returns after three idle seconds in a row, or after `seconds`."""
    deadline = time.monotonic() + seconds
    quiet = 0
    while quiet < 3 and time.monotonic() < deadline:
        busy, total = cpu_ticks()
        time.sleep(1)
        now_busy, now_total = cpu_ticks()
        quiet = quiet + 1 if now_busy - busy < IDLE_SHARE * (now_total - total) else 0


def run(command: list[str], group: Cgroup) -> tuple[int, dict[str, float]]:
    """The command's exit status and what it used."""
    (busy, _), begin = cpu_ticks(), time.monotonic()
    process = subprocess.Popen(command, preexec_fn=group.join)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    others = (cpu_ticks()[0] - busy) / os.sysconf("SC_CLK_TCK") - usage.ru_utime - usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code, {
        "wall_s": round(wall, 2),
        "user_s": round(usage.ru_utime, 2),
        "system_s": round(usage.ru_stime, 2),
        "peak_rss_MiB": usage.ru_maxrss >> 10,
        "cgroup_peak_MiB": group.peak >> 20,
        "read_GB": round(usage.ru_inblock * 512 / 1e9, 3),
        "major_faults": usage.ru_majflt,
        "others_busy_cores": round(max(0.0, others) / wall, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=parse_size, default=0, metavar="SIZE", help="memory, page cache included")
    parser.add_argument("--cold", type=Path, action="append", default=[], metavar="PATH", help="drop from page cache")
    parser.add_argument("--quiet", type=float, default=0, metavar="SECONDS", help="wait so long at most for idle cores")
    parser.add_argument("--json", action="store_true", help="print what was used as one JSON object")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command; write it after --")
    try:
        group = make_cgroup(args.limit)
    except OSError as error:
        sys.exit(f"cannot make a memory cgroup ({error}); run this as root")
    try:
        for path in args.cold:
            drop_from_page_cache(path)
        wait_until_quiet(args.quiet)
        status, used = run(command, group)
    except OSError as error:
        sys.exit(str(error))
    finally:
        group.remove()
    print(json.dumps(used) if args.json else "  ".join(f"{key}={value}" for key, value in used.items()), flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
