"""Which tokens may follow, during one answer. Needs the extra `grammar`, whose matchers know it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from swiftlet import _core
from swiftlet.answer_parser import AnswerParser
from swiftlet.stream import TextStream
from swiftlet.thinking import END
from swiftlet.tokenizer import Tokenizer

try:
    import llguidance
    import llguidance.numpy
except ImportError as error:
    raise _core.InputError("grammars need llguidance: pip install 'pyswiftlet[grammar]'") from error


class GrammarConstraint:
    """Everything that is said follows a grammar, after the thoughts if there are any."""

    def __init__(
        self, matcher: llguidance.LLMatcher, vocab_size: int, tokenizer: Tokenizer, *, in_thoughts: bool = False
    ) -> None:
        """`matcher`: at its beginning. `in_thoughts`: the answer begins inside the thoughts."""
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._tail: bytes | None = b"" if in_thoughts else None  # the end of thoughts that are going on
        self._mask = llguidance.numpy.allocate_token_bitmask(1, vocab_size)

    def mask(self) -> NDArray[np.uint32] | None:
        """A bit for each token that may come next, as swiftlet._core.Generation.next takes it; None: any may."""
        if self._tail is not None:
            return None
        llguidance.numpy.fill_next_token_bitmask(self._matcher, self._mask)
        self._check()
        mask: NDArray[np.uint32] = self._mask[0].view(np.uint32)
        return mask

    def accept(self, id: int) -> None:
        """The token that was chosen."""
        if self._tail is None:
            self._matcher.consume_token(id)
            self._check()
            return
        self._tail = (self._tail + self._tokenizer.token_bytes(id))[-4 * len(END) :]
        if END.encode() in self._tail:
            self._tail = None

    @property
    def may_end(self) -> bool:
        """Whether what was said is complete."""
        return bool(self._matcher.is_accepting())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise _core.InputError(f"the grammar cannot go on: {first_line(self._matcher.get_error())}")


class CallConstraint:
    """Any answer, but some calls in it follow a grammar.

    While nothing looks like a call, every token may come and there is no mask to compute.
    """

    def __init__(
        self, begin: Callable[[str], GrammarConstraint | None], parser: AnswerParser, tokenizer: Tokenizer
    ) -> None:
        """`begin` makes a constraint that has taken this text, the beginning of what may become a call; None: there is
        nothing to watch yet, or the text does not fit. Its grammar takes a bound call, or any text that is none."""
        self._begin = begin
        self._parser = parser
        self._text = TextStream(tokenizer)
        self._pending = ""
        self._call: GrammarConstraint | None = None  # of what may become a call, and of a bound call until it ends

    def mask(self) -> NDArray[np.uint32] | None:
        """As for GrammarConstraint."""
        return None if self._call is None else self._call.mask()

    def accept(self, id: int) -> None:
        """The token that was chosen."""
        text = self._text.push(id)
        self._parser.push(text)
        before, self._pending = self._pending, self._parser.pending
        if self._call is not None:
            unfinished = not self._call.may_end
            self._call.accept(id)
            if not self._call.may_end:
                return  # a bound call, or the name of a free one, that is not complete
            if unfinished:
                self._call = None
                return
            if self._pending and self._pending == before + text:
                return  # still undecided
        self._call = self._begin(self._pending) if self._pending else None


def first_line(message: str) -> str:
    """The part of llguidance's error messages that is for users."""
    return message.strip().split("\n", 1)[0]
