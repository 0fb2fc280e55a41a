"""Amounts of memory: from what people write to bytes, and back."""

import math
import numbers
import re

from swiftlet import _core

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgt]?i?)b?\s*", re.IGNORECASE | re.ASCII)


def parse_bytes(amount: int | str, name: str = "memory") -> int:
    """Bytes of an amount: an int, or text such as "4GB" (10^9), "512MiB" (2^20), "2.6 GB" or "4000000000".

    Raises InputError, naming the argument `name`, for anything else and for less than one byte.
    """
    if isinstance(amount, str):
        match = _AMOUNT.fullmatch(amount)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise _core.InputError(f"{name} is {amount!r}; give a number of bytes or something like 4GB or 512MiB")
        size = float(match[1]) * unit if "." in match[1] else int(match[1]) * unit
    elif isinstance(amount, numbers.Integral) and not isinstance(amount, bool):
        size = int(amount)
    else:
        raise _core.InputError(f"{name} is {amount!r}; give a number of bytes or something like 4GB or 512MiB")
    if not 1 <= size < 2**63:
        raise _core.InputError(f"{name} is {amount!r}; it must be at least one byte and less than 8 EiB")
    return math.floor(size)


def format_bytes(size: float) -> str:
    """A size in words with three digits or so, in powers of ten: "2.62 GB"."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            value = size / factor
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{size:.0f} B"
