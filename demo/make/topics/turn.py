"""One exchange, and what several topics share: reasoning, copied words, numbers that are held out."""

from __future__ import annotations

from dataclasses import dataclass

from grammar import say
from words import ADJECTIVES, NOUNS, VERBS
from world import ANIMALS, COLOURS, NAMES, WORD_LIST


@dataclass
class Turn:
    user: str
    answer: str
    short: str | None = None  # the answer in a word or two, where there is one
    think: str | None = None  # the reasoning shown in thinking mode
    plain: bool = False  # do not restyle, shorten or add noise (stories, tools, exact text)


def nonsense(rng) -> str:
    """A word that does not exist."""
    return "".join(
        rng.choice(SYL1) + rng.choice(SYL2) + rng.choice(SYL3) for _ in range(rng.choice([1, 1, 2]))
    ) + rng.choice(ENDS)


SYL1 = "bl br cl cr dr fl fr gl gr pl pr sk sl sn sp st tr tw b c d f g h j k l m n p r s t v w z qu sh ch th".split()


SYL2 = "a e i o u oo ee ai ou".split()


SYL3 = "b d f g k l m n p r s t x z ck mp nd nk rt sh st zz ng".split()


ENDS = ["", "er", "ing", "le", "o", "y", "ium", "ology", "ator", "ism", "a", "us", "ix"]


def any_word(rng) -> str:
    """For copying and spelling: the words must not come from a short list, or copying is not learnt."""
    r = rng.random()
    if r < 0.3:
        return rng.choice(WORD_LIST)
    if r < 0.75:
        return rng.choice(
            rng.choice([NOUNS, VERBS, ADJECTIVES, [a["name"] for a in ANIMALS if " " not in a["name"]], COLOURS])
        )
    if r < 0.85:
        return rng.choice(NAMES).lower()
    return nonsense(rng)


def held_out(*key) -> bool:
    """A fixed 4% of number combinations is never trained on, so that it can be asked in the evaluation."""
    h = 0
    for ch in repr(key):
        h = (h * 131 + ord(ch)) & 0xFFFFFFFF
    return (h >> 7) % 25 == 0


ASK = ["The user asks {w}.", "I am asked {w}."]


ASK_WHAT = ["The user wants to know {w}.", "The question is {w}.", "The user asks {w}."]


KNOW = ["I know this: {f}", "I remember: {f}", "{f}", "That is easy: {f}"]


def think(rng, what: str, fact: str) -> str:
    """A short piece of reasoning: what is asked, then the fact."""
    if what.startswith(("for ", "about ", "to ")):
        head = say(rng, ASK, w=what)
    elif what.startswith("the "):
        head = say(rng, ["The user asks for {w}.", "I am asked for {w}.", "The user wants to know {w}."], w=what)
    else:
        head = say(rng, ASK_WHAT, w=what)
    return head + " " + (say(rng, KNOW, f=fact) if not fact.startswith("I ") else fact)
