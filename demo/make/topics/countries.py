"""Countries: capitals, continents, languages, flags."""

from __future__ import annotations

from grammar import cap, join_list, say
from topics.turn import Turn, think
from world import ALIASES, CITY_FACTS, COUNTRIES, FAMOUS, flag

Q_CAPITAL = [
    "[What is|What's] the capital of {c}?",
    "[What is|What's] the capital city of {c}?",
    "[Which|What] city is the capital of {c}?",
    "[Tell me|Name|Give me] the capital of {c}[.|, please.|]",
    "[Do you know|Can you tell me|Could you tell me] the capital of {c}?",
    "[Can you tell me|Do you know|Please tell me|I would like to know] what the capital of {c} is[.|?]",
    "What is {c}'s capital[ city|]?",
    "{c}'s capital?",
    "capital of {c}",
    "capital of {c}?",
    "{C}: what is its capital?",
    "I forgot the capital of {c}. What is it?",
    "What city is the seat of government of {c}? I mean its capital.",
    "Quick question: capital of {c}?",
    "The capital of {c} is [...|what|which city]?",
    "What do you call the capital of {c}?",
    "Name the capital city of {c}[.|]",
    "I need the capital of {c}.",
    "Which city is {c}'s capital?",
    "What would be the capital of {c}?",
    "My [son|daughter|teacher|friend] asks: what is the capital of {c}?",
]


Q_CONTINENT = [
    "[Which|What] continent is {c} [in|on]?",
    "On which continent is {c}?",
    "[In which|In what] continent is {c}[ located|]?",
    "Where is {c}?",
    "Where is {c} located?",
    "[Tell me|Say|Name] the continent of {c}[.|]",
    "[What|Which] continent does {c} belong to?",
    "[Do you know|Can you tell me] [where {c} is|which continent {c} is in]?",
    "{C} is on which continent?",
    "What part of the world is {c} in?",
]


Q_LANGUAGE = [
    "[What|Which] language [do people speak|is spoken|do they speak] in {c}?",
    "[What|Which] languages are spoken in {c}?",
    "What is the [main |official |]language of {c}?",
    "[Tell me|Name] the language of {c}[.|]",
    "What do people speak in {c}?",
    "[Do you know|Can you tell me] [what|which] language is spoken in {c}?",
    "language of {c}?",
    "In {c}, what language do people speak?",
]


Q_REVERSE = [
    "[Which|What] country has the capital {k}?",
    "{k} is the capital of [which|what] country?",
    "Which country is {k} the capital of?",
    "[In which|In what] country is {k}?",
    "Where is {k}?",
    "What country is {k} in?",
    "[Do you know|Can you tell me] which country {k} is in?",
    "{k} is in [which|what] country?",
    "What is {k} the capital of?",
    "Which country does {k} belong to?",
]


Q_FLAG = [
    (
        "[What does the flag of {c} look like|Show me the flag of {c}|What is the flag emoji of {c}|What "
        "is the flag of {c}][?|]"
    ),
    "[Can you show|Please show|Show] me the flag emoji of {c}[.|?|]",
    "flag of {c}?",
]


Q_PEOPLE = [
    "What do you call people from {c}?",
    "What are people from {c} called?",
    "How do you call somebody from {c}? Use the plural.",
]


Q_FOLLOW = [
    "And what about {c}?",
    "What about {c}?",
    "And {c}?",
    "and {c}?",
    "How about {c}?",
    "And for {c}?",
    "And of {c}?",
    "Now {c}[, please|].",
    "{C}?",
    "The same for {c}[, please|].",
    "And what is it for {c}?",
    "Okay, and {c}?",
    "Then what about {c}?",
    "Next: {c}.",
]


A_FOLLOW_NOUN = {
    "capital": [
        "And its capital?",
        "What is its capital[ city|]?",
        "And what is the capital?",
        "What is the capital there?",
        "What's the capital of that country?",
    ],
    "continent": [
        "[Which|What] continent is it [in|on]?",
        "And the continent?",
        "Where is it?",
        "Where is that?",
        "On which continent is that?",
        "Where is that country?",
    ],
    "language": [
        "[What|Which] language do they speak there?",
        "And the language?",
        "What is the language there?",
        "What do people speak there?",
        "And what language is spoken there?",
    ],
    "flag": [
        "And the flag?",
        "What does its flag look like?",
        "Show me its flag.",
        "Can you show me the flag of that country?",
    ],
}


def country_name(rng, c):
    if c["name"] in ALIASES and rng.random() < 0.35:
        return rng.choice(ALIASES[c["name"]])
    if c["name"].startswith("the ") and rng.random() < 0.3:
        return c["name"][4:]
    return c["name"]


def pick_country(rng):
    if rng.random() < 0.35:
        f = rng.choice(FAMOUS)
        return next(c for c in COUNTRIES if c["name"] == f)
    return rng.choice(COUNTRIES)


COUNTRY_RELATIONS = {
    "capital": (Q_CAPITAL, "The capital of {c} is {v}.", lambda c: c["capital"], "the capital of {c}"),
    "continent": (Q_CONTINENT, "{C} is in {v}.", lambda c: c["continent"], "where {c} is"),
    "language": (
        Q_LANGUAGE,
        "People in {c} speak {v}.",
        lambda c: c["languages"],
        "which language people speak in {c}",
    ),
    "flag": (Q_FLAG, "This is the flag of {c}: {v}", lambda c: flag(c["iso"]), "the flag of {c}"),
    "people": (Q_PEOPLE, "People from {c} are called {v}.", lambda c: c["people"], "how people from {c} are called"),
}


def country_answer(rel, c):
    _, pat, get, what = COUNTRY_RELATIONS[rel]
    v = get(c)
    full = pat.format(c=c["name"], C=cap(c["name"]), v=v).replace("..", ".")
    if rel == "continent" and " and " in v:
        full = f"{cap(c['name'])} lies in both Europe and Asia."
    return full, v, what.format(c=c["name"])


def countries(rng):
    c = pick_country(rng)
    rel = rng.choices(
        ["capital", "continent", "language", "flag", "people", "reverse", "yesno", "both"], [40, 10, 12, 6, 3, 14, 8, 5]
    )[0]
    name = country_name(rng, c)
    if rel == "reverse":
        k = c["capital"]
        full = f"{k} is the capital of {c['name']}."
        turns = [Turn(say(rng, Q_REVERSE, k=k), full, cap(c["name"]), think(rng, f"about the city of {k}", full))]
    elif rel == "yesno":
        other = pick_country(rng)
        truth = rng.random() < 0.5 or other["capital"] == c["capital"]
        k = c["capital"] if truth else other["capital"]
        q = say(
            rng,
            [
                "Is {k} the capital of {c}?",
                "Is it true that {k} is the capital of {c}?",
                "{k} is the capital of {c}, [right|isn't it|correct]?",
                "Is the capital of {c} {k}?",
                "I think {k} is the capital of {c}. [Am I right|Is that right|Is this correct]?",
            ],
            k=k,
            c=name,
        )
        fact = f"the capital of {c['name']} is {c['capital']}.".replace("..", ".")
        full = f"Yes, {k} is the capital of {c['name']}." if truth else f"No, {fact}"
        turns = [
            Turn(
                q,
                full,
                "Yes" if truth else "No",
                think(rng, f"if {k} is the capital of {c['name']}", f"The capital of {c['name']} is {c['capital']}."),
            )
        ]
    elif rel == "both":
        q = say(
            rng,
            [
                "What are the capitals of {a} and {b}?",
                "Tell me the capitals of {a} and {b}.",
                "Capitals of {a} and {b}?",
            ],
            a=name,
            b=(d := pick_country(rng))["name"],
        )
        full = (
            f"The capital of {c['name']} is {c['capital']}, and the capital of {d['name']} is {d['capital']}.".replace(
                "..", "."
            )
        )
        return [Turn(q, full, f"{c['capital']} and {d['capital']}", think(rng, "for two capitals", full))]
    else:
        full, v, what = country_answer(rel, c)
        q = say(rng, COUNTRY_RELATIONS[rel][0], c=name, C=cap(name))
        turns = [Turn(q, full, cap(v), think(rng, what, full))]
        if rel == "capital" and c["capital"] in CITY_FACTS and rng.random() < 0.5:
            turns.append(
                Turn(
                    say(
                        rng,
                        [
                            "What is it known for?",
                            "What can I see there?",
                            "What is special about that city?",
                            "Tell me more about it.",
                        ],
                    ),
                    f"{c['capital']} is known for {CITY_FACTS[c['capital']]}.",
                    None,
                    think(rng, f"about {c['capital']}", f"{c['capital']} is known for {CITY_FACTS[c['capital']]}."),
                )
            )
    # follow-ups: the same relation for other countries, or another relation for the same country
    base = {"reverse": "capital", "yesno": "capital"}.get(rel, rel)
    here = c
    for _ in range(rng.choices([0, 1, 2, 3], [35, 35, 20, 10])[0]):
        if rng.random() < 0.6 and rel not in ("reverse", "people"):
            here = pick_country(rng)
            full, v, what = country_answer(base, here)
            n = country_name(rng, here)
            turns.append(Turn(say(rng, Q_FOLLOW, c=n, C=cap(n)), full, cap(v), think(rng, what, full)))
        elif base in A_FOLLOW_NOUN:
            nxt = rng.choice([r for r in A_FOLLOW_NOUN if r != base])
            full, v, what = country_answer(nxt, here)
            turns.append(Turn(say(rng, A_FOLLOW_NOUN[nxt]), full, cap(v), think(rng, what, full)))
            base = nxt
    return turns


def country_facts(c):
    where = f"{cap(c['name'])} is a country in {c['continent']}."
    return f"{where} Its capital is {c['capital']}, and people there speak {c['languages']}. {flag(c['iso'])}"


def country_tell(rng):
    c = pick_country(rng)
    n = c["name"]
    full = country_facts(c)
    q = say(
        rng,
        [
            "Tell me [something |]about {c}.",
            "What do you know about {c}?",
            "What can you tell me about {c}?",
            "Describe {c}.",
            "Give me some facts about {c}.",
            "{C}: tell me about it.",
        ],
        c=n,
        C=cap(n),
    )
    turns = [Turn(q, full, None, think(rng, f"about {n}", "I can name the continent, the capital and the language."))]
    if rng.random() < 0.5:
        d = pick_country(rng)
        turns.append(
            Turn(
                say(rng, Q_FOLLOW, c=d["name"], C=cap(d["name"])),
                country_facts(d),
                None,
                think(rng, f"about {d['name']}", "I can name the continent, the capital and the language."),
            )
        )
    return turns


def country_lists(rng):
    cont = rng.choice(["Europe", "Asia", "Africa", "South America", "North America", "Oceania"])
    pool = [c["name"] for c in COUNTRIES if c["continent"] == cont]
    famous = [n for n in FAMOUS if n in pool]
    n = rng.randint(2, 5)
    names = (famous + [x for x in pool if x not in famous])[: max(n, 5)]
    rng.shuffle(names)
    words = ["zero", "one", "two", "three", "four", "five"][n]
    q = say(
        rng,
        [
            "[Name|List|Tell me|Give me] {n} countries in {k}.",
            "Can you name {n} countries in {k}?",
            "Which {n} countries in {k} do you know?",
        ],
        n=rng.choice([words, str(n)]),
        k=cont,
    )
    names = names[:n]
    full = f"{cap(words)} countries in {cont} are {join_list(names)}."
    return [
        Turn(
            q,
            full,
            join_list(names),
            think(rng, f"for {words} countries in {cont}", "I can think of " + join_list(names) + "."),
        )
    ]
