"""What can be given as a prompt, and how it becomes token ids."""

import numbers
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from swiftlet import _core
from swiftlet.chat_template import ChatTemplate, Message
from swiftlet.tokenizer import Tokenizer

Prompt = str | Sequence[Message] | Sequence[int] | NDArray[np.integer[Any]]
"""Text is one user message, or plain text with raw=True; mappings are messages; integers are token ids."""


class PromptTooLong(_core.InputError):
    """A prompt that leaves the context no room for an answer."""

    def __init__(self, tokens: int | str, context: int) -> None:
        super().__init__(
            f"the prompt has {tokens} tokens and the context is {context}; "
            "shorten it, or load the model with a larger context"
        )


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


Boundary = tuple[int, bool]
"""Tokens of a prompt up to the end of a message, and whether a later end will soon serve as well."""

_LEAST_COUNTED = 65_536  # tokens of a prompt that are counted exactly, however small the context
_LEAST_HEAD = 256  # tokens: what a shorter first message costs is less than what its state takes from others


class PromptEncoder:
    """Makes token ids of prompts for one model. `end_ids` are the tokens that end a message."""

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, vocab_size: int, end_ids: Collection[int], context: int
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._vocab_size = vocab_size
        self._end_ids = frozenset(end_ids)
        self._context = context

    def __call__(self, prompt: Prompt, options: PromptOptions) -> list[int]:
        """Token ids of a prompt, at least one. Raises InputError if it is empty or malformed, PromptTooLong for text
        with far more tokens than the context."""
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
            ids = self._encode(entries)
        elif is_ids:
            ids = self.checked_ids(entries)
        else:
            ids = self._encode(self.render(entries, options))
        if not ids:
            raise _core.InputError("the prompt is empty")
        return ids

    def _encode(self, text: str) -> list[int]:
        """Token ids of a text, but only if they are few enough: others could take gigabytes before they are refused."""
        most = max(2 * self._context, _LEAST_COUNTED)
        if len(text) > most // 4 and self._tokenizer.has_more_than(most, text):
            raise PromptTooLong(f"more than {most}", self._context)
        return self._tokenizer.encode(text)

    def render(self, prompt: str | Sequence[Message], options: PromptOptions) -> str:
        """The text that the chat template makes of a user message or a conversation."""
        return self._render(prompt, options)

    def boundaries(self, prompt: Prompt, options: PromptOptions, ids: Sequence[int]) -> list[Boundary]:
        """Where later prompts are likely to leave this one, whose token ids are given: ends of messages.

        The end of a long first message, which other conversations can have too; of the user's last message, since many
        templates drop the thoughts that an answer had once the user has spoken again; and of the very last, for while
        tools are called and everything stays.
        """
        ends = [i + 1 for i, id in enumerate(ids) if id in self._end_ids]
        if not ends:
            return []
        asked = self._end_of_question(prompt, options, ends)
        head = {ends[0]} if ends[0] >= _LEAST_HEAD else set()
        return [(end, end not in (*head, asked)) for end in sorted({*head, asked, ends[-1]})]

    def _end_of_question(self, prompt: Prompt, options: PromptOptions, ends: Sequence[int]) -> int:
        """The one of `ends` that ends the user's last message; the last one if there is no telling."""
        if options.get("raw") or isinstance(prompt, str) or not isinstance(prompt[0], Mapping):
            return ends[-1]
        messages = list(prompt)
        while messages and messages[-1].get("role") != "user":
            messages.pop()
        if not messages or len(messages) == len(prompt):
            return ends[-1]
        try:
            text = self._render(messages, options, add_generation_prompt=False)
        except _core.InputError:
            return ends[-1]
        count = sum(text.count(self._tokenizer.decode([id], skip_special=False)) for id in self._end_ids)
        return ends[min(max(count, 1), len(ends)) - 1]

    def _render(
        self, prompt: str | Sequence[Message], options: PromptOptions, *, add_generation_prompt: bool = True
    ) -> str:
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
        if not add_generation_prompt:
            variables["add_generation_prompt"] = False
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
