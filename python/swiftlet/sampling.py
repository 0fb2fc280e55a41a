"""How the next token is chosen: arguments checked, and the model's own defaults."""

import math
import numbers
import secrets
from collections.abc import Mapping
from typing import Any, TypedDict

from swiftlet import _core


class SamplingOptions(TypedDict, total=False):
    """Each option can be left out, or None, for its default: what the model's generation_config.json says, else what is
    given here."""

    max_tokens: int | None
    """The longest answer. Default: what the context has left, at most 32,768."""
    temperature: float | None
    """0: always the likeliest token (greedy). Default 0."""
    top_p: float | None
    """Keep the likeliest tokens that have this probability together, 0 < top_p <= 1. Default 1: all."""
    top_k: int | None
    """Keep this many of the likeliest tokens. Default 0: all."""
    min_p: float | None
    """Keep tokens with at least this share of the likeliest one's probability, 0 to 1. Default 0: all."""
    repetition_penalty: float | None
    """Divides positive logits of tokens seen, prompt included, multiplies negative ones; above 0. Default 1: off."""
    presence_penalty: float | None
    """Subtracted from the logits of tokens that the answer has, -2 to 2. Default 0."""
    frequency_penalty: float | None
    """Subtracted once for each time that the answer has the token, -2 to 2. Default 0."""
    seed: int | None
    """0 to 2^64 - 1. Default: random; the completion records it."""
    logprobs: int | None
    """Give log-probabilities of each token, and of this many likeliest ones. Default: none at all."""
    logit_bias: Mapping[int, float] | None
    """Added to the logits of these token ids."""
    ignore_eos: bool | None
    """Go on after the model's end tokens. Default: stop there."""


MAX_TOKENS = 32_768

# Name: least, most, and the range in words. Infinity itself is never allowed.
_NUMBERS = {
    "temperature": (0.0, math.inf, "0 or more"),
    "top_p": (math.ulp(0.0), 1.0, "above 0 and at most 1"),
    "min_p": (0.0, 1.0, "between 0 and 1"),
    "repetition_penalty": (math.ulp(0.0), math.inf, "above 0"),
    "presence_penalty": (-2.0, 2.0, "between -2 and 2"),
    "frequency_penalty": (-2.0, 2.0, "between -2 and 2"),
}
_INTEGERS = {
    "max_tokens": (1, 2**31 - 1, "1 or more"),
    "top_k": (0, 2**31 - 1, "0 (off) or more"),
    "seed": (0, 2**64 - 1, "between 0 and 2^64 - 1"),
    "logprobs": (0, 2**31 - 1, "0 or more, or None"),
}


def defaults_of(generation_config: Mapping[str, Any], file: str) -> SamplingOptions:
    """The options in a generation_config.json. Raises ContainerError, naming `file`, for values that make no sense."""
    options: SamplingOptions = {}
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
        if generation_config.get(name) is not None:
            options[name] = generation_config[name]
    if not generation_config.get("do_sample", False):
        options["temperature"] = 0.0
    elif "temperature" not in options:
        options["temperature"] = 1.0
    try:
        _check(options)
    except _core.InputError as error:
        raise _core.ContainerError(f"{file}: {error}") from error
    return options


def sampling_params(
    options: SamplingOptions, defaults: SamplingOptions, *, room: int, vocab_size: int
) -> _core.SamplingParams:
    """The core's parameters for one generation. `room` is the number of tokens that the context has left.

    Raises InputError naming the argument whose value is of the wrong type or out of range.
    """
    names = SamplingOptions.__annotations__
    given = {name: value for name, value in options.items() if value is not None and name in names}
    _check(given)
    bias = given.pop("logit_bias", {})
    params = _core.SamplingParams()
    for name, value in {"seed": secrets.randbits(63), "max_tokens": MAX_TOKENS, **defaults, **given}.items():
        setattr(params, name, type(getattr(params, name))(value))  # numpy's numbers become Python's
    params.max_tokens = min(params.max_tokens, room)
    params.logit_bias = _checked_bias(bias, vocab_size)
    return params


def _check(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in _NUMBERS:
            _check_range(name, value, numbers.Real, *_NUMBERS[name])
        elif name in _INTEGERS:
            _check_range(name, value, numbers.Integral, *_INTEGERS[name])
        elif name == "ignore_eos" and not isinstance(value, bool):
            raise _core.InputError(f"ignore_eos is {value!r}; it must be True or False")


def _check_range(name: str, value: Any, kind: type, least: float, most: float, words: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        number = "a whole number" if kind is numbers.Integral else "a number"
        raise _core.InputError(f"{name} is {value!r}; it must be {number}, {words}")
    if not least <= value <= most or math.isinf(value):  # type: ignore[operator, arg-type]
        raise _core.InputError(f"{name} is {value!r}; it must be {words}")


def _checked_bias(bias: Any, vocab_size: int) -> dict[int, float]:
    if not isinstance(bias, Mapping):
        raise _core.InputError(f"logit_bias is {bias!r}; it must map token ids to numbers")
    for id, value in bias.items():
        if not isinstance(id, numbers.Integral) or not 0 <= int(id) < vocab_size:
            raise _core.InputError(f"logit_bias has the token id {id!r}; ids go from 0 to {vocab_size - 1}")
        if not isinstance(value, numbers.Real) or not math.isfinite(value):
            raise _core.InputError(f"logit_bias of token {id} is {value!r}; it must be a finite number")
    return {int(id): float(value) for id, value in bias.items()}
