"""Figures in words, and tables that suit a terminal or a log."""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from swiftlet.memory import format_bytes
from swiftlet.records import Completion, ExpertStats


def describe_stats(completion: Completion) -> str:
    """Counts, times and streaming of one answer, in two lines."""
    s = completion.stats
    cached = f" ({s.cached_tokens} cached)" if s.cached_tokens else ""
    return (
        f"prompt {s.prompt_tokens} tokens{cached} in {s.prefill_seconds:.2f} s{_rate(s.prefill_rate)}; "
        f"answer {s.completion_tokens} tokens in {s.decode_seconds:.2f} s{_rate(s.decode_rate)}; "
        f"seed {completion.seed}\n"
        f"experts: prefill {_experts(s.prefill)}; decode {_experts(s.decode)}"
    )


def describe_states(stats: Mapping[str, Any]) -> str:
    """What an engine keeps of conversations, from its `stats`, in one line."""
    disk = f", {stats['snapshots_on_disk']} on disk ({format_bytes(stats['snapshot_disk_bytes'])})"
    return (
        f"states: {stats['snapshots']} in memory ({format_bytes(stats['snapshot_bytes'])})"
        + (disk if stats["snapshots_on_disk"] else "")
        + f"; process {format_bytes(stats['resident_set_bytes'])}"
    )


def _rate(rate: float) -> str:
    return f", {rate:.1f} tok/s" if math.isfinite(rate) else ""


def _experts(stats: ExpertStats) -> str:
    rate = f"{stats.hit_rate:.1%} hits, " if math.isfinite(stats.hit_rate) else ""
    host = f"{format_bytes(stats.host_bytes)} from host memory, " if stats.host_bytes else ""
    return f"{rate}{host}{format_bytes(stats.bytes_read)} read, {stats.wait_seconds:.2f} s waited"


def print_table(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> None:
    """Aligned columns on stdout. Under a header, all but the first are aligned to the right."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _print_rich(rows, header)
        return
    lines = [header, *rows] if header else rows
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if header and i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def _print_rich(rows: Sequence[Sequence[str]], header: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=bool(header), box=None, pad_edge=False)
    for i, name in enumerate(header or rows[0]):
        table.add_column(name, justify="right" if header and i else "left", style="bold" if i == 0 else "")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
