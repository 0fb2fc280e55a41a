"""Days and months, opposites, plurals, colours."""

from __future__ import annotations

from grammar import cap, join_list, say
from topics.turn import Turn, think
from world import DAYS, MIXES, MONTHS, OPPOSITES, ORDINALS, PASTS, PLURALS, SEASONS, THING_COLOURS


def calendar(rng):
    kind = rng.choice(
        [
            "day_after",
            "day_before",
            "month_after",
            "month_before",
            "days_in",
            "days",
            "months",
            "month_no",
            "season",
            "seasons",
            "in_days",
            "weekend",
        ]
    )
    i = rng.randrange(7)
    d = DAYS[i]
    j = rng.randrange(12)
    m, n = MONTHS[j]
    if kind == "day_after":
        v = DAYS[(i + 1) % 7]
        return [
            Turn(
                say(
                    rng,
                    [
                        "[What|Which] day comes after {d}?",
                        "What is the day after {d}?",
                        "Today is {d}. What day is tomorrow?",
                        "If today is {d}, what is tomorrow?",
                        "What day follows {d}?",
                    ],
                    d=d,
                ),
                f"{v} comes after {d}.",
                v,
                think(rng, f"which day follows {d}", f"After {d} comes {v}."),
            )
        ]
    if kind == "day_before":
        v = DAYS[(i - 1) % 7]
        return [
            Turn(
                say(
                    rng,
                    [
                        "[What|Which] day comes before {d}?",
                        "What is the day before {d}?",
                        "Today is {d}. What day was yesterday?",
                        "If today is {d}, what was yesterday?",
                    ],
                    d=d,
                ),
                f"{v} comes before {d}.",
                v,
                think(rng, f"which day is before {d}", f"Before {d} comes {v}."),
            )
        ]
    if kind == "month_after":
        v = MONTHS[(j + 1) % 12][0]
        return [
            Turn(
                say(
                    rng,
                    [
                        "[What|Which] month comes after {m}?",
                        "What is the month after {m}?",
                        "What is the next month after {m}?",
                        "What month follows {m}?",
                    ],
                    m=m,
                ),
                f"{v} comes after {m}.",
                v,
                think(rng, f"which month follows {m}", f"After {m} comes {v}."),
            )
        ]
    if kind == "month_before":
        v = MONTHS[(j - 1) % 12][0]
        return [
            Turn(
                say(
                    rng,
                    [
                        "[What|Which] month comes before {m}?",
                        "What is the month before {m}?",
                        "Which month is just before {m}?",
                    ],
                    m=m,
                ),
                f"{v} comes before {m}.",
                v,
                think(rng, f"which month is before {m}", f"Before {m} comes {v}."),
            )
        ]
    if kind == "days_in":
        full = f"{m} has {n} days." if m != "February" else "February has 28 days, and 29 in a leap year."
        return [
            Turn(
                say(
                    rng,
                    [
                        "How many days does {m} have?",
                        "How many days are [there |]in {m}?",
                        "How long is {m}?",
                        "Number of days in {m}?",
                    ],
                    m=m,
                ),
                full,
                str(n),
                think(rng, f"how many days {m} has", full),
            )
        ]
    if kind == "days":
        return [
            Turn(
                say(
                    rng,
                    [
                        "[Name|List|Tell me|Say] the days of the week.",
                        "What are the days of the week?",
                        "Can you list the days of the week?",
                        "days of the week?",
                    ],
                ),
                "The days of the week are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.",
                ", ".join(DAYS),
                think(rng, "for the days of the week", "There are seven days."),
            )
        ]
    if kind == "months":
        return [
            Turn(
                say(
                    rng,
                    [
                        "[Name|List|Tell me|Say] the months[ of the year|].",
                        "What are the months of the year?",
                        "Can you list all twelve months?",
                    ],
                ),
                "The months are " + join_list([x for x, _ in MONTHS]) + ".",
                ", ".join(x for x, _ in MONTHS),
                think(rng, "for the months", "There are twelve months."),
            )
        ]
    if kind == "month_no":
        full = f"The {ORDINALS[j]} month of the year is {m}."
        return [
            Turn(
                say(
                    rng,
                    [
                        "[What|Which] is the {o} month[ of the year|]?",
                        "Name the {o} month of the year.",
                        "Which month is number {k}?",
                    ],
                    o=ORDINALS[j],
                    k=j + 1,
                ),
                full,
                m,
                think(rng, f"for month number {j + 1}", f"That is {m}."),
            )
        ]
    if kind == "season":
        s = rng.choice(list(SEASONS))
        full = f"In the north of the world, {s} is in {SEASONS[s]}."
        return [
            Turn(
                say(
                    rng,
                    [
                        "When is {s}?",
                        "Which months are in {s}?",
                        "In which months is {s}?",
                        "What are the months of {s}?",
                    ],
                    s=s,
                ),
                full,
                SEASONS[s],
                think(rng, f"when {s} is", full),
            )
        ]
    if kind == "seasons":
        return [
            Turn(
                say(rng, ["[Name|List|What are] the [four |]seasons[.|?]", "Which seasons are there?"]),
                "The four seasons are spring, summer, autumn and winter.",
                "Spring, summer, autumn, winter",
                think(rng, "for the seasons", "There are four."),
            )
        ]
    if kind == "in_days":
        k = rng.randint(2, 6)
        v = DAYS[(i + k) % 7]
        steps = ", ".join(DAYS[(i + x) % 7] for x in range(1, k + 1))
        return [
            Turn(
                say(
                    rng,
                    [
                        "Today is {d}. What day is it in {k} days?",
                        "If today is {d}, what day will it be in {k} days?",
                        "What day is {k} days after {d}?",
                    ],
                    d=d,
                    k=k,
                ),
                f"{cap(str(k))} days after {d} it is {v}.",
                v,
                f"I start at {d} and count {k} days: {steps}. So it is {v}.",
            )
        ]
    return [
        Turn(
            say(rng, ["Which days are the weekend?", "What days are on the weekend?", "When is the weekend?"]),
            "The weekend is Saturday and Sunday.",
            "Saturday and Sunday",
            think(rng, "about the weekend", "It is Saturday and Sunday."),
        )
    ]


def opposites(rng):
    a, b = rng.choice(OPPOSITES)
    if rng.random() < 0.5:
        a, b = b, a
    q = say(
        rng,
        [
            "[What is|What's] the opposite of {a}?",
            "[Tell me|Give me|Name] the opposite of {a}.",
            "opposite of {a}?",
            "What is the opposite of the word {a}?",
            "What word means the opposite of {a}?",
            "What is the antonym of {a}?",
            "{a} is the opposite of what?",
            "If something is not {a}, what is the opposite word?",
        ],
        a=a,
    )
    turns = [Turn(q, f"The opposite of {a} is {b}.", b, think(rng, f"for the opposite of {a}", f"It is {b}."))]
    while rng.random() < 0.4 and len(turns) < 4:
        a, b = rng.choice(OPPOSITES)
        turns.append(
            Turn(
                say(
                    rng,
                    ["And of {a}?", "And {a}?", "What about {a}?", "And what about {a}?", "And the opposite of {a}?"],
                    a=a,
                ),
                f"The opposite of {a} is {b}.",
                b,
                think(rng, f"for the opposite of {a}", f"It is {b}."),
            )
        )
    return turns


def plurals(rng):
    if rng.random() < 0.35:
        a, b = rng.choice(PASTS)
        q = say(
            rng,
            [
                "What is the past [tense |form |]of {a}?",
                "[Give|Tell] me the past tense of {a}.",
                "past tense of {a}?",
                "What is the past of to {a}?",
            ],
            a=a,
        )
        turns = [Turn(q, f"The past tense of {a} is {b}.", b, think(rng, f"for the past of {a}", f"It is {b}."))]
        if rng.random() < 0.4:
            a, b = rng.choice(PASTS)
            turns.append(
                Turn(
                    say(rng, ["And of {a}?", "And {a}?", "What about {a}?"], a=a),
                    f"The past tense of {a} is {b}.",
                    b,
                    think(rng, f"for the past of {a}", f"It is {b}."),
                )
            )
        return turns
    a, b = rng.choice(PLURALS)
    if rng.random() < 0.2:
        q = say(rng, ["What is the singular of {b}?", "What is the singular form of {b}?", "singular of {b}?"], b=b)
        return [Turn(q, f"The singular of {b} is {a}.", a, think(rng, f"for the singular of {b}", f"It is {a}."))]
    q = say(
        rng,
        [
            "What is the plural of {a}?",
            "[Tell me|Give me] the plural of {a}.",
            "plural of {a}?",
            "What is the plural form of {a}?",
            "One {a}, two ...?",
            "How do you say more than one {a}?",
            "What is the plural of the word {a}?",
        ],
        a=a,
    )
    turns = [Turn(q, f"The plural of {a} is {b}.", b, think(rng, f"for the plural of {a}", f"It is {b}."))]
    while rng.random() < 0.4 and len(turns) < 4:
        a, b = rng.choice(PLURALS)
        turns.append(
            Turn(
                say(rng, ["And of {a}?", "And {a}?", "What about {a}?", "And the plural of {a}?"], a=a),
                f"The plural of {a} is {b}.",
                b,
                think(rng, f"for the plural of {a}", f"It is {b}."),
            )
        )
    return turns


def colours(rng):
    if rng.random() < 0.35:
        a, b, c = rng.choice(MIXES)
        if rng.random() < 0.5:
            a, b = b, a
        full = f"If you mix {a} and {b}, you get {c}."
        return [
            Turn(
                say(
                    rng,
                    [
                        "What [colour|color] do you get [if|when] you mix {a} and {b}?",
                        "[What is|What's] {a} and {b} mixed[ together|]?",
                        "Mix {a} and {b}. What [colour|color] is it?",
                        "What do {a} and {b} make?",
                        "Which colour do {a} and {b} make together?",
                    ],
                    a=a,
                    b=b,
                ),
                full,
                cap(c),
                think(rng, f"what {a} and {b} make", full),
            )
        ]
    t = rng.choice(THING_COLOURS)
    full = f"{cap(t['thing'])} is {t['colour']}."
    turns = [
        Turn(
            say(
                rng,
                [
                    "What [colour|color] is {t}?",
                    "Which colour does {t} have?",
                    "Tell me the colour of {t}.",
                    "What is the [colour|color] of {t}?",
                    "{t}: what colour?",
                ],
                t=t["thing"],
            ),
            full,
            cap(t["colour"]),
            think(rng, f"for the colour of {t['thing']}", full),
        )
    ]
    if rng.random() < 0.4:
        t = rng.choice(THING_COLOURS)
        turns.append(
            Turn(
                say(rng, ["And {t}?", "What about {t}?", "And what colour is {t}?"], t=t["thing"]),
                f"{cap(t['thing'])} is {t['colour']}.",
                cap(t["colour"]),
                think(rng, f"for the colour of {t['thing']}", f"It is {t['colour']}."),
            )
        )
    return turns
