"""Log-probabilities of tokens in the forms of OpenAI's APIs."""

from collections.abc import Sequence
from typing import Any

from swiftlet.records import TokenLogprob
from swiftlet.tokenizer import Tokenizer

_LEAST = -9999.0  # JSON has no minus infinity


def chat_logprobs(entries: Sequence[TokenLogprob], top: int, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """For chat completions: a list of tokens. Special ones are left out: they are no part of the content."""
    return [
        {
            **_token(entry.token_id, entry.logprob, tokenizer),
            "top_logprobs": [_token(id, logprob, tokenizer) for id, logprob in entry.top[:top]],
        }
        for entry in entries
        if entry.token_id not in tokenizer.special_ids
    ]


def completion_logprobs(entries: Sequence[TokenLogprob], offset: int, tokenizer: Tokenizer) -> dict[str, Any]:
    """For text completions: lists side by side. `offset`: characters of text before."""
    kept = [entry for entry in entries if entry.token_id not in tokenizer.special_ids]
    tokens = [_text(entry.token_id, tokenizer) for entry in kept]
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    return {
        "tokens": tokens,
        "token_logprobs": [max(entry.logprob, _LEAST) for entry in kept],
        "top_logprobs": [{_text(id, tokenizer): max(logprob, _LEAST) for id, logprob in entry.top} for entry in kept],
        "text_offset": offsets,
    }


def _token(id: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    data = tokenizer.token_bytes(id)
    return {"token": data.decode("utf-8", "replace"), "logprob": max(logprob, _LEAST), "bytes": list(data)}


def _text(id: int, tokenizer: Tokenizer) -> str:
    return tokenizer.token_bytes(id).decode("utf-8", "replace")
