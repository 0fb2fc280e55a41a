"""Draws what swiftlet-bench measured, and beside it what llama-bench did.

    plot.py [LABEL=]FILE ... -o performance.svg

Each FILE holds JSON lines: of `swiftlet-bench COMMAND --json FILE`, or of `llama-bench -o jsonl`. LABEL names it in the
drawing (default: the file's name). A panel is drawn for each command that the files speak of; bars and points are
medians, whiskers go from the least to the most. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLORS = ("#3366a8", "#7fa8d8", "#c8772e", "#e8b98a", "#5a8f5a", "#a8c8a0", "#8a6fb0", "#999999")


@dataclass
class Point:
    """One figure: in a panel, at a place on its x axis, of a label."""

    panel: str
    place: str
    label: str
    median: float
    least: float
    most: float


def point(panel: str, place: str, label: str, figure: dict[str, Any]) -> Point:
    return Point(panel, place, label, figure["median"], figure["min"], figure["max"])


def points_of(line: dict[str, Any], label: str) -> list[Point]:
    """The figures of one measurement. Raises KeyError for a line that is of neither program."""
    if "avg_ts" in line:
        samples = line["samples_ts"]
        figure = {"median": statistics.median(samples), "min": min(samples), "max": max(samples)}
        if line["n_gen"]:
            return [point("decode, tokens/s", "", label, figure)]
        return [point("prefill, tokens/s", str(line["n_prompt"]), label, figure)]
    match line["command"]:
        case "decode":
            return [
                point("decode, tokens/s", "", label, line["tokens_per_second"]),
                point("decode, GB/s", "decode", label, line["gb_per_second"]),
                point("decode, GB/s", "plain read", label, line["plain_read_gb_per_second"]),
            ]
        case "prefill":
            return [point("prefill, tokens/s", str(line["prompt"]), label, line["tokens_per_second"])]
        case "context":
            label = f"{label} {line['kv']}"
            return [point("decode at a position, tokens/s", str(line["position"]), label, line["tokens_per_second"])]
        case "io":
            label = f"{label} {'direct' if line['direct_io'] else 'buffered'}"
            return [
                point(
                    "reads of experts, GB/s, by reads in flight", str(line["io_threads"]), label, line["gb_per_second"]
                )
            ]
        case "kernels":
            if line["tokens"] > 1:
                return []
            return [
                point("one token times a matrix, GB/s", line["codec"], label, line["gb_per_second"]),
                point("one token times a matrix, GB/s", line["codec"], "plain read", line["plain_read_gb_per_second"]),
            ]
        case command:
            raise KeyError(command)


def read_points(source: str) -> list[Point]:
    """The figures of a file, given as FILE or LABEL=FILE. SystemExit says what is wrong with it."""
    label, _, name = source.rpartition("=")
    path = Path(name)
    points = []
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"cannot read {path}: {error}")
    for number, line in enumerate(text.splitlines(), 1):
        try:
            points += points_of(json.loads(line), label or path.stem)
        except (ValueError, KeyError, TypeError, statistics.StatisticsError):
            sys.exit(f"{path}, line {number}: not a measurement of swiftlet-bench or of llama-bench -o jsonl")
    if not points:
        sys.exit(f"{path} holds nothing to draw")
    return points


def draw(points: list[Point], out: Path) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("plot.py needs matplotlib: pip install matplotlib")
    # Text stays text and nothing tells the hour: a small file, and the same one for the same figures.
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "swiftlet", "font.size": 9})
    panels = list(dict.fromkeys(p.panel for p in points))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.4), squeeze=False)
    labels = list(dict.fromkeys(p.label for p in points))
    for axis, panel in zip(axes[0], panels, strict=True):
        own = [p for p in points if p.panel == panel]
        places = list(dict.fromkeys(p.place for p in own))
        shown = [label for label in labels if any(p.label == label for p in own)]
        width = 0.8 / len(shown)
        for p in own:
            x = places.index(p.place) + (shown.index(p.label) - (len(shown) - 1) / 2) * width
            color = COLORS[labels.index(p.label) % len(COLORS)]
            axis.bar(x, p.median, width * 0.92, color=color)
            axis.vlines(x, p.least, p.most, color="#333333", linewidth=0.8)
            axis.text(x, p.most, f"{p.median:.3g}", ha="center", va="bottom", fontsize=7)
        axis.set_title(panel, fontsize=10)
        rotation = 60 if len(places) > 6 else 0
        axis.set_xticks(range(len(places)), places, rotation=rotation)
        axis.spines[["top", "right"]].set_visible(False)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=COLORS[i % len(COLORS)]) for i in range(len(labels))]
    figure.legend(handles, labels, loc="lower center", ncols=min(len(labels), 4), frameon=False)
    figure.tight_layout(rect=(0, 0.06 * (1 + (len(labels) - 1) // 4), 1, 1))
    try:
        figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None, dpi=150)
    except (OSError, ValueError) as error:
        sys.exit(f"cannot write {out}: {error}")
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="[LABEL=]FILE")
    parser.add_argument("-o", "--out", type=Path, required=True, help="drawing to write: .svg or .png")
    args = parser.parse_args()
    draw([p for source in args.files for p in read_points(source)], args.out)


if __name__ == "__main__":
    main()
