"""Tensor names of both model families, in the MLX and the Hugging Face layout.

The same tensor is `language_model.model.layers.0...` after an MLX conversion, `model.language_model.layers.0...` in a
multimodal upload and `model.layers.0...` in a text-only one. Its canonical name is what is left: `layers.0...`,
`embed_tokens.weight`, `norm.weight`, `lm_head.weight`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MATRICES = ("gate_proj", "up_proj", "down_proj")
FIELDS = ("weight", "scales", "biases")

_PREFIX = re.compile(r"(?:language_model\.model\.|model\.language_model\.|language_model\.|model\.)")
_SKIPPED = re.compile(r"(?:mtp|visual|vision_tower|vision_model)\.")  # multi-token prediction, image input
_ROUTED = re.compile(r"layers\.\d+\.mlp\.(?:switch_mlp|experts)\.")
_EXPERT = re.compile(
    r"layers\.(?P<layer>\d{1,4})\.mlp\."
    r"(?:switch_mlp\.(?P<stacked>gate_proj|up_proj|down_proj)\.(?P<stacked_field>weight|scales|biases)"
    r"|experts\.(?P<fused>gate_up_proj|down_proj)"
    r"|experts\.(?P<expert>\d{1,5})\.(?P<single>gate_proj|up_proj|down_proj)\.(?P<single_field>weight|scales|biases))"
)


@dataclass(frozen=True, slots=True)
class ExpertName:
    """A tensor of routed experts: one matrix of all experts of a layer, or of one of them."""

    layer: int
    matrix: str  # one of MATRICES, or "gate_up_proj": gate's rows, then up's
    field: str  # one of FIELDS
    expert: int | None  # None: all experts, stacked along the first axis


def canonical(name: str) -> str | None:
    """The canonical name, or None for a tensor that text generation does not need."""
    rest = name
    while True:
        if _SKIPPED.match(rest):
            return None
        prefix = _PREFIX.match(rest)
        if not prefix:
            return rest
        rest = rest[prefix.end() :]


def is_routed(canonical_name: str) -> bool:
    """Whether the tensor belongs to routed experts, known spelling or not."""
    return _ROUTED.match(canonical_name) is not None


def parse_expert(canonical_name: str) -> ExpertName | None:
    match = _EXPERT.fullmatch(canonical_name)
    if not match:
        return None
    return ExpertName(
        layer=int(match["layer"]),
        matrix=match["stacked"] or match["fused"] or match["single"],
        field=match["stacked_field"] or match["single_field"] or "weight",
        expert=int(match["expert"]) if match["expert"] else None,
    )
