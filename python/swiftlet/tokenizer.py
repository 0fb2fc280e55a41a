"""Text to token ids and back."""

import os
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import tokenizers

from swiftlet import _core
from swiftlet.models import read_json

_PIECE = 65_536  # characters


class Tokenizer:
    """The byte-level BPE tokenizer of a checkpoint or container folder (tokenizer.json, tokenizer_config.json).

    Text that spells an added token ("<|im_end|>", "<think>") is encoded as that token, also inside a prompt, as in
    Hugging Face tokenizers. Raises ContainerError if a file is missing or damaged.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder) / "tokenizer.json"
        self.config: dict[str, Any] = read_json(path.with_name("tokenizer_config.json"))
        if not path.is_file():
            raise _core.ContainerError(f"{path} is missing; copy it from the checkpoint")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise _core.ContainerError(f"{path} cannot be loaded: {error}") from error
        decoder = type(self._tokenizer.decoder).__name__
        if decoder != "ByteLevel":
            raise _core.ContainerError(f"{path} has the decoder {decoder}; only ByteLevel is supported")
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._add_missing_tokens(path.with_name("tokenizer_config.json"))

        added = self._tokenizer.get_added_tokens_decoder()
        self.added_tokens: dict[str, int] = {token.content: id for id, token in added.items()}
        self.special_ids = frozenset(id for id, token in added.items() if token.special)
        self._bytes: dict[int, bytes] = {}

    def _add_missing_tokens(self, file: Path) -> None:
        """Older checkpoints list some added tokens in tokenizer_config.json alone."""
        try:
            listed = {int(id): entry for id, entry in self.config.get("added_tokens_decoder", {}).items()}
            for id, entry in sorted(listed.items()):
                if self._tokenizer.token_to_id(entry["content"]) is None:
                    special = bool(entry.get("special"))
                    token = tokenizers.AddedToken(entry["content"], special=special, normalized=False)
                    self._tokenizer.add_tokens([token])
                if self._tokenizer.token_to_id(entry["content"]) != id:
                    raise _core.ContainerError(f"{file} gives {entry['content']!r} the id {id}, tokenizer.json another")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _core.ContainerError(f"{file} has a malformed added_tokens_decoder: {error!r}") from error

    @property
    def vocab_size(self) -> int:
        """The largest id of a token and one, added ones included; the model's vocabulary can be larger."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str) -> list[int]:
        """Ids of a text, nothing added. Raises InputError for text with lone surrogates, which no file can hold."""
        _check_unicode(text)
        # Unlike encode(), this lets other threads run meanwhile.
        return self._tokenizer.encode_batch([text], add_special_tokens=False)[0].ids

    def has_more_than(self, count: int, text: str) -> bool:
        """Whether a text has more tokens than that, give or take a few: takes no more time and memory than they do."""
        _check_unicode(text)
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return any(total > count for total in accumulate(len(self.encode(piece)) for piece in pieces))

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Text of ids. Bytes that are no UTF-8 become U+FFFD; ids without a token are skipped."""
        kept: Iterable[int] = (id for id in ids if id not in self.special_ids) if skip_special else ids
        return b"".join(map(self.token_bytes, kept)).decode("utf-8", errors="replace")

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token stands for, which need not be whole characters; none for an id without a token."""
        if id not in self._bytes:
            self._bytes[id] = _to_bytes(self._tokenizer.id_to_token(id) or "")
        return self._bytes[id]

    def all_token_bytes(self) -> list[bytes]:
        """The same of all tokens, by id, for one use: nothing of it is kept."""
        return [_to_bytes(self._tokenizer.id_to_token(id) or "") for id in range(self.vocab_size)]


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        what = f"the text is not valid Unicode: character {error.start} is half a surrogate pair"
        raise _core.InputError(what) from error


def _byte_alphabet() -> dict[str, int]:
    """The characters that byte-level BPE writes for bytes: printable Latin-1 for itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def _to_bytes(token: str) -> bytes:
    try:
        return bytes(map(_BYTE_OF_CHAR.__getitem__, token))
    except KeyError:  # an added token with characters that stand for no byte
        return token.encode("utf-8")


_BYTE_OF_CHAR = _byte_alphabet()
