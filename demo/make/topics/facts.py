"""Planets, numbers of things, lists and kinds of things."""

from __future__ import annotations

import re

from grammar import a_an, cap, join_list, say
from topics.counting import NUM_WORDS
from topics.turn import Turn, think
from world import CATEGORIES, IS_A, NUMBER_FACTS, ORDINALS, PLANETS


def planets(rng):
    p = rng.choice(PLANETS)
    n, i = p["name"], int(p["order"])
    kind = rng.choice(["tell", "order", "which", "look", "moons", "list", "next"])
    if kind == "tell":
        full = f"{n} is the {ORDINALS[i - 1]} planet from the sun. It is {p['look']}. {p['fact']}"
        return [
            Turn(
                say(
                    rng,
                    [
                        "Tell me about [the planet |]{n}.",
                        "What do you know about {n}?",
                        "What is {n}?",
                        "Describe the planet {n}.",
                    ],
                    n=n,
                ),
                full,
                None,
                think(rng, f"about the planet {n}", f"{n} is planet number {i}."),
            )
        ]
    if kind == "order":
        full = f"{n} is the {ORDINALS[i - 1]} planet from the sun."
        return [
            Turn(
                say(
                    rng,
                    [
                        "Which planet from the sun is {n}?",
                        "What number is {n} from the sun?",
                        "What is the position of {n} in the solar system?",
                        "Where in the order of planets is {n}?",
                    ],
                    n=n,
                ),
                full,
                cap(ORDINALS[i - 1]),
                think(rng, f"about the position of {n}", full),
            )
        ]
    if kind == "which":
        full = f"The {ORDINALS[i - 1]} planet from the sun is {n}."
        turns = [
            Turn(
                say(
                    rng,
                    [
                        "[What|Which] is the {o} planet[ from the sun|]?",
                        "[Name|Tell me] the {o} planet from the sun.",
                        "Which planet is number {i}[ from the sun|]?",
                    ],
                    o=ORDINALS[i - 1],
                    i=i,
                ),
                full,
                n,
                think(rng, f"for planet number {i}", full),
            )
        ]
        j = rng.randint(1, 8)
        if rng.random() < 0.4:
            m = PLANETS[j - 1]["name"]
            turns.append(
                Turn(
                    say(rng, ["And the {o}?", "And the {o} one?", "What about the {o}?"], o=ORDINALS[j - 1]),
                    f"The {ORDINALS[j - 1]} planet from the sun is {m}.",
                    m,
                    think(rng, f"for planet number {j}", m + "."),
                )
            )
        return turns
    if kind == "look":
        full = f"{n} is {p['look']}."
        return [
            Turn(
                say(rng, ["What does {n} look like?", "How does the planet {n} look?", "Describe how {n} looks."], n=n),
                full,
                None,
                think(rng, f"how {n} looks", full),
            )
        ]
    if kind == "moons":
        m = p["moons"]
        full = {
            "0": f"{n} has no moons.",
            "1": f"{n} has one moon.",
            "2": f"{n} has two moons.",
            "many": f"{n} has many moons.",
        }[m]
        return [
            Turn(
                say(
                    rng,
                    ["How many moons does {n} have?", "Does {n} have moons?", "What is the number of moons of {n}?"],
                    n=n,
                ),
                full,
                {"0": "None", "1": "One", "2": "Two", "many": "Many"}[m],
                think(rng, f"about the moons of {n}", full),
            )
        ]
    if kind == "list":
        full = "The planets are Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune."
        return [
            Turn(
                say(
                    rng,
                    [
                        "[Name|List|Tell me] [all |]the planets[ of our solar system| in order|].",
                        "What are the planets of [our|the] solar system?",
                        "Which planets are there?",
                        "Can you list the planets in order?",
                        "planets of the solar system?",
                    ],
                ),
                full,
                "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune",
                think(rng, "for the planets", "There are eight of them."),
            )
        ]
    if i == 8:
        i = 1
        n = "Mercury"
    nxt = PLANETS[i]["name"]
    full = f"{nxt} comes after {n}."
    return [
        Turn(
            say(
                rng,
                [
                    "Which planet comes after {n}?",
                    "What planet is next after {n}?",
                    "What comes after {n} in the solar system?",
                ],
                n=n,
            ),
            full,
            nxt,
            think(rng, f"which planet comes after {n}", full),
        )
    ]


def number_facts(rng):
    core, short, full = rng.choice(NUMBER_FACTS)
    q = "How many " + say(rng, core) + "?"
    if rng.random() < 0.3:
        q = say(
            rng,
            ["Can you tell me how many {c}?", "Do you know how many {c}?", "Tell me how many {c}."],
            c=say(rng, core)
            .replace("does a ", "a ")
            .replace("does an ", "an ")
            .replace("does the ", "the ")
            .replace(" have", " has")
            .replace("are there ", "are "),
        )
    return [Turn(q, full, short, think(rng, "for a number", full))]


def lists(rng):
    k = rng.choice(list(CATEGORIES))
    items = [x.strip() for x in CATEGORIES[k].split(",")]
    n = rng.randint(2, min(6, len(items)))
    picks = rng.sample(items, n)
    words = NUM_WORDS[n]
    num = rng.choice([words, str(n)])
    if rng.random() < 0.45:
        bare = [re.sub(r"^(an?|the) ", "", x) for x in picks]
        style = rng.choice(["bullet", "number"])
        q = say(
            rng,
            ["[Make|Write|Give me] a {s} of {n} {k}.", "List {n} {k} [as|in] a {s}.", "{N} {k} as a {s}, please."],
            s={"bullet": "bulleted list", "number": "numbered list"}[style],
            n=num,
            N=cap(num),
            k=k,
        )
        full = "\n".join((f"- {cap(x)}" if style == "bullet" else f"{i}. {cap(x)}") for i, x in enumerate(bare, 1))
        return [
            Turn(q, full, None, think(rng, f"for {words} {k}", "I can think of " + join_list(bare) + "."), plain=True)
        ]
    q = say(
        rng,
        [
            "[Name|List|Tell me|Give me] {n} {k}[.|, please.|]",
            "Can you [name|list] {n} {k}?",
            "What are {n} {k} you know?",
            "I need {n} {k}.",
            "{n} {k}?",
            "Do you know {n} {k}?",
        ],
        n=num,
        k=k,
    )
    full = f"{cap(words)} {k} are {join_list(picks)}."
    turns = [
        Turn(
            q,
            full,
            join_list([re.sub(r"^(an?|the) ", "", x) for x in picks]),
            think(rng, f"for {words} {k}", "I can think of " + join_list(picks) + "."),
        )
    ]
    if rng.random() < 0.3 and len(items) > n:
        x = rng.choice([i for i in items if i not in picks])
        turns.append(
            Turn(
                say(rng, ["One more, please.", "Another one?", "And one more?", "Tell me another one."]),
                f"Another one is {x}.",
                cap(x),
                think(rng, "for one more", f"I have not said {x} yet."),
            )
        )
    return turns


def is_a(rng):
    w = rng.choice(list(IS_A))
    k = IS_A[w]
    if rng.random() < 0.5:
        full = f"{cap(a_an(w)) if w not in ('milk', 'tea', 'football', 'tennis') else cap(w)} is {a_an(k)}."
        return [
            Turn(
                say(
                    rng,
                    ["What kind of thing is {w}?", "What is {w}?", "Is {w} {k1} or {k2}?"],
                    w=a_an(w) if w not in ("milk", "tea", "football", "tennis") else w,
                    k1=a_an(k),
                    k2=a_an(rng.choice([x for x in sorted(set(IS_A.values())) if x != k])),
                ),
                full,
                cap(k),
                think(rng, f"what {w} is", full),
            )
        ]
    truth = rng.random() < 0.5
    g = k if truth else rng.choice([x for x in sorted(set(IS_A.values())) if x != k])
    s = w if w in ("milk", "tea", "football", "tennis") else a_an(w)
    return [
        Turn(
            f"Is {s} {a_an(g)}?",
            f"Yes, {s} is {a_an(k)}." if truth else f"No, {s} is {a_an(k)}, not {a_an(g)}.",
            "Yes" if truth else "No",
            think(rng, f"if {s} is {a_an(g)}", f"{cap(s)} is {a_an(k)}."),
        )
    ]
