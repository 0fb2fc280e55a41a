"""The reference fixtures: tiny checkpoints and what mlx-lm computes on them in float32.

The repository holds a subset; SWIFTLET_REFERENCE names a folder with all of them.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_COMMITTED = Path(__file__).parent.parent / "data" / "reference"
ROOT = Path(os.environ.get("SWIFTLET_REFERENCE", _COMMITTED))
CHECKPOINTS = ROOT / "checkpoints"
NAMES = sorted(p.name for p in CHECKPOINTS.iterdir() if (ROOT / "forward" / f"{p.name}.safetensors").exists())

_DTYPES = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "U32": np.uint32, "U8": np.uint8, "BF16": np.uint16}


@cache
def load(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Tensors of a safetensors file (BF16 as its bits), and the JSON of its metadata entry "info"."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    info = json.loads(header.pop("__metadata__", {}).get("info", "{}"))
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, info


def forward(name: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    return load(ROOT / "forward" / f"{name}.safetensors")
