"""What can be given as a prompt, and how it becomes token ids."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from swiftlet import _core
from swiftlet.chat_template import ChatTemplate, Message
from swiftlet.tokenizer import Tokenizer

Prompt = str | Sequence[Message] | Sequence[int] | NDArray[np.integer[Any]]
"""Text is one user message, or plain text with raw=True; mappings are messages; integers are token ids."""


class PromptOptions(TypedDict, total=False):
    """How a prompt becomes token ids; each option can be left out."""

    tools: Sequence[Mapping[str, Any]] | None
    """Functions that the model may call, as OpenAI describes them."""
    enable_thinking: bool | None
    """Passed to the chat template. Default: the template's."""
    chat_template_kwargs: Mapping[str, Any] | None
    """More variables for the chat template."""
    raw: bool
    """The prompt is plain text for the model to continue: no chat template."""


class PromptEncoder:
    """Makes token ids of prompts for one model."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._vocab_size = vocab_size

    def __call__(self, prompt: Prompt, options: PromptOptions) -> list[int]:
        """Token ids of a prompt, at least one. Raises InputError if it is empty or malformed."""
        entries = prompt if isinstance(prompt, str) else _entries(prompt)
        if not len(entries):
            raise _core.InputError("the prompt is empty")
        raw = options.get("raw", False)
        if raw and not isinstance(entries, str):
            raise _core.InputError("raw=True goes with a prompt that is text")
        is_ids = not isinstance(entries, str) and isinstance(entries[0], numbers.Integral)
        if raw or is_ids:
            for name in ("tools", "enable_thinking", "chat_template_kwargs"):
                if options.get(name) is not None:
                    raise _core.InputError(f"{name} has no effect on raw text or token ids: no chat template is used")
        if isinstance(entries, str) and raw:
            ids = self._tokenizer.encode(entries)
        elif is_ids:
            ids = self.checked_ids(entries)
        else:
            ids = self._tokenizer.encode(self.render(entries, options))
        if not ids:
            raise _core.InputError("the prompt is empty")
        return ids

    def render(self, prompt: str | Sequence[Message], options: PromptOptions) -> str:
        """The text that the chat template makes of a user message or a conversation."""
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        given = options.get("chat_template_kwargs") or {}
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise _core.InputError(f"chat_template_kwargs is {given!r}; it must map names to values")
        variables = dict(given)
        if options.get("enable_thinking") is not None:
            variables["enable_thinking"] = options["enable_thinking"]
        for name in ("messages", "tools", "documents"):
            if name in variables:
                raise _core.InputError(f"chat_template_kwargs cannot set {name!r}")
        return self._template.render(messages, tools=options.get("tools"), **variables)

    def checked_ids(self, ids: Sequence[Any] | NDArray[np.integer[Any]]) -> list[int]:
        """Token ids as plain integers. Raises InputError if there are none, or for one that the model does not have."""
        entries = _entries(ids)
        if not len(entries):
            raise _core.InputError("the prompt is empty")
        for i, id in enumerate(entries):
            if not isinstance(id, numbers.Integral) or isinstance(id, bool) or not 0 <= int(id) < self._vocab_size:
                most = self._vocab_size - 1
                raise _core.InputError(f"token {i} of the prompt is {id!r}; ids are whole numbers from 0 to {most}")
        return [int(id) for id in entries]


def _entries(prompt: Any) -> Sequence[Any]:
    if isinstance(prompt, np.ndarray) and prompt.ndim == 1:
        return list(prompt.tolist())
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
        what = "a prompt is text, a list of messages or a list of token ids"
        raise _core.InputError(f"{what}, not {type(prompt).__name__}")
    return prompt
