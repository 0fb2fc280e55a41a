"""swiftlet doctor: does this machine compute what it should, and how fast?"""

import argparse
import platform
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swiftlet import __version__
from swiftlet.cli.status_line import StatusLine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DESCRIPTION = """\
Runs a model on everything that this machine can compute with, each instruction set of the CPU and each GPU, and
compares every layer with plain loops on the CPU. Checks as well that less memory for experts changes nothing, and
measures. Prints a report to paste into an issue; the exit status is 1 if something is wrong.
"""

_PROMPT_TOKENS = 96
_ANSWER_TOKENS = 32
# Of the largest value in a layer. Sums in another order differ in the seventh digit, and layers add that up.
_TOLERANCE = 1e-3
# Two experts with almost the same score may change places; more tokens than this do not have that.
_SAME_EXPERTS = 0.9


@dataclass(frozen=True)
class Computer:
    """Something to compute with."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """How a computer did."""

    computer: Computer
    description: str
    error: float  # the worst of all layers, relative to the layer's largest value
    same_experts: float  # share of tokens that chose the same experts in all layers
    same_answer: bool  # as the reference
    same_bits: bool  # with memory for few experts as with memory for all
    rates: tuple[float, float] | None  # tokens a second, prefill and decode

    @property
    def good(self) -> bool:
        """The greedy answer may part from the reference's where two tokens are equally likely; it is shown only."""
        return self.error <= _TOLERANCE and self.same_experts >= _SAME_EXPERTS and self.same_bits


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = subparsers.add_parser(
        "doctor", help="check what this machine computes, and how fast", description=_DESCRIPTION
    )
    parser.add_argument("-m", "--model", default="demo", metavar="PATH", help='container, or "demo" (the default)')
    parser.add_argument("--no-bench", action="store_true", help="check only, measure nothing")


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    from swiftlet.models import resolve

    path = str(resolve(args.model))
    print(_machine())
    print(f"model {path}")
    good = True
    with StatusLine("computing the reference"):
        reference = _Run(path, Computer("reference", {"backend": "cpu", "isa": "reference"}))
    for computer in _computers():
        with StatusLine(f"checking {computer.name}"):
            findings = _examine(path, computer, reference, bench=not args.no_bench)
        _print(findings)
        good = good and findings.good
    print("everything is in order" if good else "SOMETHING IS WRONG: please report this")
    return 0 if good else 1


def _computers() -> list[Computer]:
    from swiftlet import _core

    cpus = [Computer(f"cpu {isa}", {"backend": "cpu", "isa": isa}) for isa in _core.cpu_isas() if isa != "reference"]
    return cpus + [Computer(name, {"backend": name}) for name in _core.backends() if name != "cpu"]


class _Run:
    """What a computer makes of the prompt: every layer, the greedy answer, and nothing rounded in the cache."""

    def __init__(self, path: str, computer: Computer, **options: Any) -> None:
        from swiftlet import _core

        engine = _core.Engine(path, kv="f32", context=512, **computer.options, **options)
        prompt = [token % engine.config["vocab_size"] for token in range(100, 100 + _PROMPT_TOKENS)]
        forward = engine.forward(engine.session(), prompt, capture=True)
        self.layers: NDArray[np.float32] = forward["layers"]
        self.logits: NDArray[np.float32] = forward["logits"]
        self.experts: list[NDArray[np.int32] | None] = forward["router_indices"]
        params = _core.SamplingParams()
        params.temperature, params.max_tokens, params.ignore_eos = 0.0, _ANSWER_TOKENS, True
        generation = engine.generate(engine.session(), prompt, params)
        self.answer = [generation.next().id for _ in range(_ANSWER_TOKENS)]
        self.description: str = engine.config["backend"]
        self.experts_per_token: int = engine.config["num_experts_per_tok"]


def _examine(path: str, computer: Computer, reference: _Run, bench: bool) -> Findings:
    import numpy as np

    here = _Run(path, computer)
    few = _Run(path, computer, pool_slots=2 * reference.experts_per_token)
    same = _same_experts(here, reference)
    return Findings(
        computer=computer,
        description=here.description,
        error=_error(here, reference, same),
        same_experts=float(same.mean()),
        same_answer=here.answer == reference.answer,
        same_bits=np.array_equal(here.logits, few.logits) and here.answer == few.answer,
        rates=_rates(path, computer) if bench else None,
    )


def _same_experts(one: _Run, other: _Run) -> "NDArray[np.bool_]":
    """[T]: whether the token, and all before it, went to the same experts everywhere."""
    import numpy as np

    same = np.ones(len(one.logits), bool)
    for a, b in zip(one.experts, other.experts, strict=True):
        if a is not None and b is not None:
            same &= (np.sort(a, -1) == np.sort(b, -1)).all(-1)
    return np.logical_and.accumulate(same)


def _error(one: _Run, other: _Run, tokens: "NDArray[np.bool_]") -> float:
    """The worst relative difference of a layer's output or the logits, over these tokens; NaN counts as infinite."""
    import numpy as np

    worst = 0.0
    for a, b in [*zip(one.layers, other.layers, strict=True), (one.logits, other.logits)]:
        difference = np.abs(a[tokens] - b[tokens]).max(initial=0) / max(np.abs(b).max(), 1e-30)
        worst = max(worst, float(np.nan_to_num(difference, nan=np.inf)))
    return worst


def _rates(path: str, computer: Computer) -> tuple[float, float]:
    import statistics

    from swiftlet.cli.bench import measure
    from swiftlet.engine import Engine

    with Engine(path, context=1024, **computer.options) as engine:
        runs = measure(engine, prompt_tokens=512, decode_tokens=64, repeats=3, warmup=1)
    return statistics.median(r.prefill_rate for r in runs), statistics.median(r.decode_rate for r in runs)


def _print(findings: Findings) -> None:
    verdict = "ok" if findings.good else "WRONG"
    print(f"{findings.computer.name}: {verdict}  ({findings.description})")
    print(
        f"  worst difference {findings.error:.1e} (allowed {_TOLERANCE:.0e}), same experts for "
        f"{findings.same_experts:.0%} of tokens, answer {'the same' if findings.same_answer else 'another'}, "
        f"few experts in memory change {'nothing' if findings.same_bits else 'THE RESULT'}"
    )
    if findings.rates:
        print(f"  prefill {findings.rates[0]:.1f} tok/s, decode {findings.rates[1]:.1f} tok/s")


def _machine() -> str:
    """One line: versions, system, processor."""
    processor = platform.processor() or platform.machine()
    if sys.platform == "darwin":
        question = ["sysctl", "-n", "machdep.cpu.brand_string"]
        processor = subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip() or processor
    return f"swiftlet {__version__}, Python {platform.python_version()}, {platform.platform()}, {processor}"
