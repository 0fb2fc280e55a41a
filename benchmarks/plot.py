"""Draws what swiftlet-bench measured, and beside it what llama-bench did.

    plot.py [LABEL=]FILE ... -o performance.svg

Each FILE holds JSON lines: of `swiftlet-bench COMMAND --json FILE`, or of `llama-bench -o jsonl`. LABEL names it in the
drawing (default: the file's name); files of one label are runs of the same thing. Each command that the files speak of
gets a panel; bars are medians of all samples, whiskers go from the least to the most. Needs matplotlib.
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


@dataclass(frozen=True)
class Bar:
    """A place in the drawing: a panel, a position on its x axis, a label."""

    panel: str
    place: str
    label: str


Samples = dict[Bar, list[float]]


def samples_of(line: dict[str, Any], label: str) -> Samples:
    """The figures of one measurement. Raises KeyError for a line that is of neither program."""
    if "avg_ts" in line:
        if line["n_gen"]:
            return {Bar("decode, tokens/s", "", label): line["samples_ts"]}
        return {Bar("prefill, tokens/s", str(line["n_prompt"]), label): line["samples_ts"]}
    memory = line.get("memory", {"slots": 0, "experts": 0})
    ceiling = f"{memory['ceiling'] / 2**30:.1f} GiB" if memory["slots"] < memory["experts"] else ""
    match line["command"]:
        case "decode" if ceiling:
            return {Bar("decode under a ceiling, tokens/s", ceiling, label): line["tokens_per_second"]["samples"]}
        case "decode":
            return {
                Bar("decode, tokens/s", "", label): line["tokens_per_second"]["samples"],
                Bar("decode, GB/s", "decode", label): line["gb_per_second"]["samples"],
                Bar("decode, GB/s", "plain read", label): line["plain_read_gb_per_second"]["samples"],
            }
        case "prefill":
            place = " under ".join(filter(None, (str(line["prompt"]), ceiling)))
            return {Bar("prefill, tokens/s", place, label): line["tokens_per_second"]["samples"]}
        case "context":
            bar = Bar("decode at a position, tokens/s", str(line["position"]), f"{label} {line['kv']}")
            return {bar: line["tokens_per_second"]["samples"]}
        case "io":
            way = "direct" if line["direct_io"] else "buffered"
            bar = Bar("reads of experts, GB/s, by reads in flight", str(line["io_threads"]), f"{label} {way}")
            return {bar: line["gb_per_second"]["samples"]}
        case "kernels":
            panel = "one token times a matrix, GB/s"
            if line["tokens"] > 1:
                return {}
            return {
                Bar(panel, line["codec"], label): line["gb_per_second"]["samples"],
                Bar(panel, line["codec"], "plain read"): line["plain_read_gb_per_second"]["samples"],
            }
        case command:
            raise KeyError(command)


def read_samples(sources: list[str]) -> Samples:
    """What files hold, each given as FILE or LABEL=FILE. SystemExit says what is wrong with one."""
    all_samples: Samples = {}
    for source in sources:
        label, _, name = source.rpartition("=")
        path = Path(name)
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"cannot read {path}: {error}")
        for number, line in enumerate(text.splitlines(), 1):
            try:
                for bar, samples in samples_of(json.loads(line), label or path.stem).items():
                    all_samples.setdefault(bar, []).extend(map(float, samples))
            except (ValueError, KeyError, TypeError, AttributeError):
                sys.exit(f"{path}, line {number}: not a measurement of swiftlet-bench or of llama-bench -o jsonl")
    if not any(all_samples.values()):
        sys.exit("there is nothing to draw in these files")
    return all_samples


def draw(bars: Samples, out: Path) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("plot.py needs matplotlib: pip install matplotlib")
    # Text stays text and nothing tells the hour: a small file, and the same one for the same figures.
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "swiftlet", "font.size": 9})
    panels = list(dict.fromkeys(bar.panel for bar in bars))
    labels = list(dict.fromkeys(bar.label for bar in bars))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.4), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        own = {bar: samples for bar, samples in bars.items() if bar.panel == panel}
        places = list(dict.fromkeys(bar.place for bar in own))
        shown = [label for label in labels if any(bar.label == label for bar in own)]
        width = 0.8 / len(shown)
        for bar, samples in own.items():
            x = places.index(bar.place) + (shown.index(bar.label) - (len(shown) - 1) / 2) * width
            median = statistics.median(samples)
            axis.bar(x, median, width * 0.92, color=COLORS[labels.index(bar.label) % len(COLORS)])
            axis.vlines(x, min(samples), max(samples), color="#333333", linewidth=0.8)
            if len(own) <= 12:  # more would overlap
                axis.text(x, max(samples), f"{median:.3g}", ha="center", va="bottom", fontsize=7)
        axis.set_title(panel, fontsize=10)
        slanted = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if len(places) > 6 else {}
        axis.set_xticks(range(len(places)), places, **slanted)
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
    draw(read_samples(args.files), args.out)


if __name__ == "__main__":
    main()
