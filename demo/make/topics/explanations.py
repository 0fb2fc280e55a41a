"""Explanations of everyday things and of the engine, and instructions."""

from __future__ import annotations

import re

from grammar import cap, say
from topics.turn import Turn, think
from world import EVERYDAY, HOWTO, TECH, WHY_TECH


def everyday(rng):
    e = rng.choice(EVERYDAY)
    core = rng.choice(e["questions"].split(";"))
    q = cap(core) + "?"
    if rng.random() < 0.35:
        if core.startswith("what is "):
            q = say(
                rng,
                [
                    "Can you explain what {x} is?",
                    "Explain {x}.",
                    "Please explain {x}.",
                    "Tell me what {x} is.",
                    "What do you know about {x}?",
                    "Can you tell me about {x}?",
                ],
                x=core[8:],
            )
        elif core.startswith("why "):
            q = say(
                rng,
                ["Can you explain this: {c}?", "I always wondered: {c}?", "My child asks: {c}?", "Do you know {c}?"],
                c=core,
            )
        else:
            q = say(rng, ["Do you know: {c}?", "Tell me, {c}?", "I wonder: {c}?", "Please tell me: {c}?"], c=core)
    full = e["answer"]
    if rng.random() < 0.15:
        q = q.rstrip("?.") + say(rng, ["? Answer in one sentence.", "? One sentence is enough.", "? Keep it short."])
        full = full.split(". ")[0].rstrip(".") + "."
    return [
        Turn(
            q, full, cap(e["short"]), think(rng, "to explain something: " + core, "I will explain it in simple words.")
        )
    ]


def howto(rng):
    h = rng.choice(HOWTO)
    steps = h["steps"].split(", ")
    steps[-1] = re.sub(r"^and ", "", steps[-1])
    your = {
        "brush my teeth": "brush your teeth",
        "wash my hands": "wash your hands",
        "tie my shoes": "tie your shoes",
    }.get(h["what"], h["what"])
    if rng.random() < 0.5:
        q = say(
            rng,
            ["How [do|can|should] I {w}?", "Tell me how to {w}.", "Explain how to {w}.", "How to {w}?"],
            w=h["what"],
        )
        full = f"To {your}, {h['steps']}."
    else:
        q = say(
            rng,
            [
                "How do I {w}? [Give me the steps|Answer with a list|List the steps].",
                "Give me the steps to {w}.",
                "Write a list of steps to {w}.",
                "Explain step by step how to {w}.",
            ],
            w=h["what"],
        )
        full = "\n".join(f"{i}. {cap(s)}." for i, s in enumerate(steps, 1))
        return [Turn(q, full, None, think(rng, f"how to {your}", "I will list the steps."), plain=True)]
    return [Turn(q, full, None, think(rng, f"how to {your}", "I will describe the steps."))]


def tech(rng):
    if rng.random() < 0.25:
        qs, short, full = rng.choice(WHY_TECH)
        core = rng.choice(qs)
        return [
            Turn(
                say(
                    rng,
                    [
                        "{C}?",
                        "Tell me: {c}?",
                        "I would like to know: {c}?",
                        "{C}? Please explain.",
                        "Can you tell me: {c}?",
                    ],
                    C=cap(core),
                    c=core,
                ),
                full,
                short.rstrip("."),
                think(rng, core, "I will answer in simple words."),
            )
        ]
    key = rng.choice(
        list(TECH)
        + ["expert streaming"] * 3
        + ["a mixture of experts"] * 2
        + ["the qpack container", "an LFU cache", "a token", "swiftlet"]
    )
    names, short, sentence, paras = TECH[key]
    n = rng.choice(names)
    length = rng.choices(["para", "one", "kid"], [62, 22, 16])[0]
    if length == "one":
        q = say(
            rng,
            [
                "Explain {n} in one sentence.",
                "What is {n}? [Answer in one sentence|One sentence, please|Keep it short|Be brief].",
                "In one sentence, what is {n}?",
                "Describe {n} in one sentence.",
                "Give me a short definition of {n}.",
                "Define {n}.",
            ],
            n=n,
        )
        full = sentence
    else:
        kid = [p for p in paras if p.startswith(("Think of", "Imagine", "An LFU cache is like"))]
        if length == "kid" and kid:
            q = say(
                rng,
                [
                    "Explain {n} to a child.",
                    "Explain {n} like I am five.",
                    "Explain {n} with a picture from everyday life.",
                    "Can you explain {n} with a simple comparison?",
                    "What is {n}? Explain it to me like I am a child.",
                    "Explain {n} in a simple way for kids.",
                ],
                n=n,
            )
            full = rng.choice(kid)
        else:
            q = say(
                rng,
                [
                    "Explain {n} in one paragraph.",
                    "[What is|What's] {n}?",
                    "Explain {n}.",
                    "[Can|Could] you explain {n}[ to me|]?",
                    "What does {n} mean?",
                    "Tell me about {n}.",
                    "What do you know about {n}?",
                    "How does {n} work?",
                    "Please explain {n} [in plain words|in simple words|briefly|to me].",
                    "Explain {n} in plain words.",
                    "I have heard of {n}. What is it?",
                    "Describe {n} in a few sentences.",
                    "Write a paragraph about {n}.",
                    "Give me a short explanation of {n}.",
                    "What is meant by {n}?",
                    "I do not understand {n}. Can you explain it?",
                ],
                n=n,
            )
            full = rng.choice([p for p in paras if p not in kid])
    turns = [Turn(q, full, cap(short), think(rng, f"to explain {n}", sentence))]
    if rng.random() < 0.3:
        k2 = rng.choice(list(TECH))
        n2 = rng.choice(TECH[k2][0])
        turns.append(
            Turn(
                say(rng, ["And what is {n}?", "And {n}?", "What about {n}?", "And how about {n}?"], n=n2),
                rng.choice([TECH[k2][2], TECH[k2][3][0]]),
                cap(TECH[k2][1]),
                think(rng, f"to explain {n2}", TECH[k2][2]),
            )
        )
    return turns
