"""swiftlet info: what a container holds, and the memory that it needs."""

import argparse
import json
from pathlib import Path
from typing import Any

from swiftlet import ContainerError
from swiftlet.cli.arguments import add_plan_arguments

_DESCRIPTION = "Shows what a container holds, and the memory plan for the given ceiling and context. Loads no weights."


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = subparsers.add_parser("info", help="show what a container holds and needs", description=_DESCRIPTION)
    parser.add_argument("model", nargs="?", default="demo", help='container, or "demo" (the default)')
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_plan_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    from swiftlet.engine import plan_memory
    from swiftlet.models import resolve

    plan = plan_memory(
        args.model,
        memory=args.memory,
        context=args.context,
        kv=args.kv,
        chunk=args.chunk,
        backend=args.backend,
        state_memory=args.state_memory,
        host_memory=args.host_memory,
    )
    facts = describe(resolve(args.model))
    if args.json:
        print(json.dumps({**facts, "plan": {key: value for key, value in plan.items() if key != "text"}}))
    else:
        _print(facts, plan["text"])
    return 0


def describe(path: Path) -> dict[str, Any]:
    """Facts about a container from its JSON files and file sizes. Sizes in bytes."""
    from swiftlet.models import read_json

    config = read_json(path / "config.json")
    text = config.get("text_config", config)
    manifest = read_json(path / "manifest.json")
    sizes = {file.relative_to(path): file.stat().st_size for file in path.rglob("*") if file.is_file()}
    experts = sum(size for file, size in sizes.items() if file.parts[0] == "packed_experts")
    try:
        layers = text["num_hidden_layers"]
        interval = text.get("full_attention_interval", 4)
        kinds = text.get("layer_types") or [
            "full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(layers)
        ]
        return {
            "path": str(path),
            "model_type": config["model_type"],
            "source": manifest.get("sourceCheckpoint"),
            "num_hidden_layers": layers,
            "linear_attention_layers": kinds.count("linear_attention"),
            "full_attention_layers": kinds.count("full_attention"),
            "hidden_size": text["hidden_size"],
            "vocab_size": text["vocab_size"],
            "num_experts": text["num_experts"],
            "num_experts_per_tok": text["num_experts_per_tok"],
            "max_position_embeddings": text["max_position_embeddings"],
            "quantization": _quantization(config),
            "resident_bytes": sizes.get(Path("model.safetensors"), 0),
            "experts_bytes": experts,
            "total_bytes": sum(sizes.values()),
        }
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ContainerError(f"{path / 'config.json'} lacks a usable value: {error!r}") from error


def _quantization(config: dict[str, Any]) -> dict[str, Any] | None:
    """Bits, group size and mode of most matrices, and how many have others; None for plain weights."""
    block = config.get("quantization") or config.get("text_config", {}).get("quantization")
    if not block:
        return None
    return {
        "bits": block["bits"],
        "group_size": block["group_size"],
        "mode": block.get("mode", "affine"),
        "overrides": sum(isinstance(value, dict) for value in block.values()),
    }


def _print(facts: dict[str, Any], plan: str) -> None:
    from swiftlet.cli.report import print_table
    from swiftlet.memory import format_bytes

    quantization = facts["quantization"]
    weights = "not quantized"
    if quantization:
        weights = f"{quantization['bits']} bits, groups of {quantization['group_size']}, {quantization['mode']}"
        weights += f"; {quantization['overrides']} exceptions" if quantization["overrides"] else ""
    rows = [
        ("container", facts["path"]),
        ("family", facts["model_type"]),
        ("made from", facts["source"] or "unknown"),
        (
            "layers",
            f"{facts['num_hidden_layers']} ({facts['linear_attention_layers']} linear attention, "
            f"{facts['full_attention_layers']} full attention)",
        ),
        ("experts", f"{facts['num_experts']} a layer, {facts['num_experts_per_tok']} a token"),
        ("sizes", f"hidden {facts['hidden_size']}, vocabulary {facts['vocab_size']}"),
        ("longest context", f"{facts['max_position_embeddings']} tokens"),
        ("weights", weights),
        (
            "on disk",
            f"{format_bytes(facts['total_bytes'])} ({format_bytes(facts['resident_bytes'])} resident, "
            f"{format_bytes(facts['experts_bytes'])} experts)",
        ),
    ]
    print_table(rows)
    print(f"\nmemory plan\n{plan}", end="")
