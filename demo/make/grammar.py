"""A very small text grammar: `[a|b|c]` picks one alternative (nesting allowed), `{slot}` is filled in."""

from __future__ import annotations

import random
from functools import cache


@cache
def _parse(text: str):
    """-> tuple of str | tuple-of-alternatives (each again a parsed tuple)."""
    pos = 0

    def sequence(stop: str):
        nonlocal pos
        parts, buf = [], []
        while pos < len(text) and text[pos] not in stop:
            ch = text[pos]
            pos += 1
            if ch != "[":
                buf.append(ch)
                continue
            if buf:
                parts.append("".join(buf))
                buf = []
            alts = []
            while True:
                alts.append(sequence("|]"))
                if pos >= len(text):
                    raise ValueError("unclosed [ in " + text)
                pos += 1
                if text[pos - 1] == "]":
                    break
            parts.append(tuple(alts))
        if buf:
            parts.append("".join(buf))
        return tuple(parts)

    return sequence("")


def _render(node, rng: random.Random) -> str:
    return "".join(p if isinstance(p, str) else _render(rng.choice(p), rng) for p in node)


def say(rng: random.Random, text, **slots) -> str:
    """Expands one template (or one chosen from a list)."""
    if not isinstance(text, str):
        text = rng.choice(text)
    out = _render(_parse(text), rng)
    return out.format_map(slots) if slots and "{" in out else out


def a_an(noun: str) -> str:
    return (
        "an " if noun[:1].lower() in "aeio" or noun.startswith(("umbrella", "uncle", "ugly", "unhappy")) else "a "
    ) + noun


def cap(text: str) -> str:
    return text[:1].upper() + text[1:]


def join_list(items, last="and") -> str:
    items = list(items)
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" {last} " + items[-1]
