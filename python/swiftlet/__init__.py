"""Runs Qwen3-Next and Qwen3.5 mixture-of-experts models in little memory by streaming experts from disk.

import swiftlet

with swiftlet.Engine("demo", memory="4GB") as engine:
    for delta in engine.generate("Why is the sky blue?"):
        print(delta, end="", flush=True)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from swiftlet._core import (
    CancelledError,
    ContainerError,
    InputError,
    IoError,
    MemoryLimitError,
    NumericError,
    SwiftletError,
)

if TYPE_CHECKING:
    from swiftlet.chat_template import ChatTemplate
    from swiftlet.engine import Engine, plan_memory
    from swiftlet.generation import Stream
    from swiftlet.records import Completion, Delta, ExpertStats, Stats, TokenLogprob
    from swiftlet.session import Reply, Session
    from swiftlet.tokenizer import Tokenizer

__version__ = "0.1.0"

__all__ = [
    "CancelledError",
    "ChatTemplate",
    "Completion",
    "ContainerError",
    "Delta",
    "Engine",
    "ExpertStats",
    "InputError",
    "IoError",
    "MemoryLimitError",
    "NumericError",
    "Reply",
    "Session",
    "Stats",
    "Stream",
    "SwiftletError",
    "TokenLogprob",
    "Tokenizer",
    "__version__",
    "plan_memory",
]

# Imported when first used: numpy, tokenizers and jinja2 would cost every start of the command line their import time.
_LAZY = {
    "ChatTemplate": "chat_template",
    "Completion": "records",
    "Delta": "records",
    "Engine": "engine",
    "ExpertStats": "records",
    "Reply": "session",
    "Session": "session",
    "Stats": "records",
    "Stream": "generation",
    "TokenLogprob": "records",
    "Tokenizer": "tokenizer",
    "plan_memory": "engine",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"swiftlet.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _LAZY.keys())
