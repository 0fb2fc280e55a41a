"""Animals: what they eat, where they live, how they differ."""

from __future__ import annotations

from grammar import a_an, cap, say
from topics.turn import Turn, think
from world import ANIMALS, GROUPS, KIND_NOTE, SUPERLATIVES


def animals(rng):
    a = rng.choice(ANIMALS)
    if rng.random() < 0.12:
        a = (
            next(x for x in ANIMALS if x["name"] == "swiftlet")
            if rng.random() < 0.5
            else next(x for x in ANIMALS if x["name"] == "fieldfare")
        )
    p = a["plural"]
    rel = rng.choices(
        ["food", "home", "kind", "baby", "sound", "legs", "tell", "isa", "fly", "follow"],
        [14, 13, 10, 10, 10, 10, 22, 9, 4, 0],
    )[0]

    def ask(rel, a):
        n, p, A, P = a["name"], a["plural"], cap(a_an(a["name"])), cap(a["plural"])
        sl = {"n": n, "p": p, "a": a_an(n), "P": P}
        if rel == "food":
            return (
                say(
                    rng,
                    [
                        "What [do {p} eat|does {a} eat]?",
                        "What is the food of {p}?",
                        "[Tell me|Do you know] what {p} eat[.|]",
                        "What do {p} like to eat?",
                        "food of {p}?",
                        "What can I feed {a}?",
                        "What does the {n} eat?",
                        "I have {a}. What does it eat?",
                    ],
                    **sl,
                ),
                f"{P} eat {a['food']}.",
                cap(a["food"]),
                f"what {p} eat",
            )
        if rel == "home":
            return (
                say(
                    rng,
                    [
                        "Where [do {p} live|does {a} live]?",
                        "Where can I find {p}?",
                        "What is the home of {p}?",
                        "[Tell me|Do you know] where {p} live[.|]",
                        "Where does the {n} live?",
                        "In what places do {p} live?",
                    ],
                    **sl,
                ),
                f"{P} live {a['home']}.",
                cap(a["home"]),
                f"where {p} live",
            )
        if rel == "kind":
            return (
                say(
                    rng,
                    [
                        "What kind of animal is {a}?",
                        "What type of animal is {a}?",
                        "What is {a}?",
                        "[Which|What] animal group [does {a} belong to|do {p} belong to]?",
                        "What class of animal is the {n}?",
                        "What sort of animal is {a}?",
                    ],
                    **sl,
                ),
                f"{A} is {a_an(a['kind'])}. It {KIND_NOTE[a['kind']]}."
                if a["name"] not in ("snail",)
                else "A snail is a mollusc. It has a soft body and a shell.",
                cap(a["kind"]),
                f"what kind of animal {a_an(n)} is",
            )
        if rel == "baby":
            return (
                say(
                    rng,
                    [
                        "What [is a baby {n} called|do you call a baby {n}]?",
                        "What is the name for a baby {n}?",
                        "How do you call a young {n}?",
                        "What is a young {n} called?",
                        "What are baby {p} called?",
                    ],
                    **sl,
                ),
                f"A baby {n} is called {a_an(a['baby'])}.",
                cap(a["baby"]),
                f"how a baby {n} is called",
            )
        if rel == "sound":
            return (
                say(
                    rng,
                    [
                        "What [sound|noise] does {a} make?",
                        "What [sound|noise] do {p} make?",
                        "How does {a} sound?",
                        "What does {a} say?",
                        "Which sound does the {n} make?",
                    ],
                    **sl,
                ),
                f"{A} {a['sound']}.",
                cap(a["sound"]),
                f"which sound {a_an(n)} makes",
            )
        if rel == "legs":
            legs = a["legs"]
            body = {"0": f"{A} has no legs.", "8": f"{A} has 8 {'arms' if n == 'octopus' else 'legs'}."}.get(
                legs, f"{A} has {legs} legs."
            )
            return (
                say(
                    rng,
                    [
                        "How many legs [does {a} have|do {p} have]?",
                        "What is the number of legs of {a}?",
                        "{P} have how many legs?",
                        "Tell me how many legs {a} has.",
                    ],
                    **sl,
                ),
                body,
                "None" if legs == "0" else legs,
                f"how many legs {a_an(n)} has",
            )
        if rel == "fly":
            can = (a["kind"] == "bird" and n not in ("penguin", "ostrich")) or n in (
                "bat",
                "bee",
                "butterfly",
                "ladybird",
                "mosquito",
            )
            return (
                say(rng, ["Can {p} fly?", "Can {a} fly?", "Do {p} fly?", "Is {a} able to fly?"], **sl),
                f"Yes, {p} can fly." if can else f"No, {p} cannot fly.",
                "Yes" if can else "No",
                f"if {p} can fly",
            )
        if rel == "isa":
            truth = rng.random() < 0.5
            k = (
                a["kind"]
                if truth
                else rng.choice([k for k in ("mammal", "bird", "fish", "insect", "reptile") if k != a["kind"]])
            )
            return (
                say(
                    rng,
                    ["Is {a} {k}?", "Are {p} {ks}?", "Is it true that {a} is {k}?", "Is the {n} {k}?"],
                    k=a_an(k),
                    ks=k + "s" if k != "fish" else k,
                    **sl,
                ),
                f"Yes, {a_an(n)} is {a_an(k)}." if truth else f"No, {a_an(n)} is {a_an(a['kind'])}, not {a_an(k)}.",
                "Yes" if truth else "No",
                f"if {a_an(n)} is {a_an(k)}",
            )
        facts = [a["fact1"], a["fact2"]]
        rng.shuffle(facts)
        size = rng.choice([1, 2, 3])
        full = " ".join(
            ([f"{A} is {a_an(a['kind'])}."] if size == 3 else []) + facts[: max(1, size - 1) if size < 3 else 2]
        )
        if size == 3:
            full += f" {P} live {a['home']} and eat {a['food']}."
        q = {
            1: [
                "Tell me a fact about {p}.",
                "Give me one fact about {p}.",
                "Do you know a fun fact about {p}?",
                "Say something about {p} in one sentence.",
            ],
            2: ["Tell me something about {p}.", "What do you know about {p}?", "Tell me two facts about {p}."],
            3: [
                "Tell me about {p}.",
                "Tell me about the {n}.",
                "What can you tell me about {p}?",
                "Describe {a}.",
                "Tell me all you know about {p}.",
                "What are {p}?",
                "Write a few sentences about {p}.",
            ],
        }[size]
        if size == 2:
            full = " ".join(facts)
        return say(rng, q, **sl), full, None, f"about {p}"

    q, full, short, what = ask(rel, a)
    turns = [Turn(q, full, short, think(rng, what, full if len(full) < 90 else f"I know some facts about {p}."))]
    ends = {
        "food": ["And what does it eat?", "What do they eat?", "And their food?"],
        "home": ["And where do they live?", "Where does it live?"],
        "baby": ["What is its baby called?", "And what are their babies called?"],
        "sound": ["What sound does it make?", "And the sound?"],
        "legs": ["How many legs does it have?", "And how many legs do they have?"],
        "fly": ["Can it fly?", "Can they fly?"],
    }
    for _ in range(rng.choices([0, 1, 2], [55, 30, 15])[0]):
        if rel in ends and rng.random() < 0.55:
            a = rng.choice(ANIMALS)
            _, full, short, what = ask(rel, a)
            turns.append(
                Turn(
                    say(
                        rng,
                        [
                            "And {a}?",
                            "What about {a}?",
                            "And {p}?",
                            "What about {p}?",
                            "How about {a}?",
                            "And what about {p}?",
                        ],
                        a=a_an(a["name"]),
                        p=a["plural"],
                    ),
                    full,
                    short,
                    think(rng, what, full),
                )
            )
        else:
            rel = rng.choice([r for r in ends if r != rel])
            _, full, short, what = ask(rel, a)
            turns.append(Turn(say(rng, ends[rel]), full, short, think(rng, what, full)))
    return turns


FOODS = {
    "grass": "cow horse sheep goat rabbit zebra hippo deer camel kangaroo goose",
    "fish": "cat bear polar_bear seal dolphin penguin eagle shark octopus crocodile",
    "meat": "dog cat lion tiger wolf crocodile",
    "insects": "bat frog swift swallow swiftlet spider lizard hedgehog robin sparrow",
    "nuts": "squirrel parrot woodpecker mouse",
    "honey": "bear",
    "bamboo": "panda",
    "worms": "hedgehog robin blackbird frog",
    "leaves": "giraffe koala elephant deer snail goat",
}


SIZES = (
    "ant bee mosquito ladybird spider butterfly snail mouse sparrow robin swiftlet frog bat squirrel "
    "hedgehog crow duck cat rabbit fox goose dog sheep wolf goat pig deer lion bear cow horse camel "
    "zebra hippo giraffe elephant whale"
).split()


def animal_yes_no(rng):
    if rng.random() < 0.5:
        i, j = rng.sample(range(len(SIZES)), 2)
        if abs(i - j) < 5:
            return animal_yes_no(rng)
        a, b = SIZES[i], SIZES[j]
        big, small = (a, b) if i > j else (b, a)
        w = rng.choice(["bigger", "larger", "smaller"])
        r = small if w == "smaller" else big
        o = big if w == "smaller" else small
        full = f"{cap(a_an(r))} is {w} than {a_an(o)}."
        if rng.random() < 0.6:
            return [
                Turn(
                    say(
                        rng,
                        [
                            "[Which|What] is {w}, {a} or {b}?",
                            "Which animal is {w}: {a} or {b}?",
                            "{A} or {b}, which one is {w}?",
                            "Who is {w}, {a} or {b}?",
                        ],
                        w=w,
                        a=a_an(a),
                        b=a_an(b),
                        A=cap(a_an(a)),
                    ),
                    full,
                    cap(a_an(r)),
                    think(rng, f"which animal is {w}", full),
                )
            ]
        truth = a == r
        return [
            Turn(
                f"Is {a_an(a)} {w} than {a_an(b)}?",
                ("Yes, " if truth else "No, ") + full[0].lower() + full[1:],
                "Yes" if truth else "No",
                think(rng, f"if {a_an(a)} is {w} than {a_an(b)}", full),
            )
        ]
    food = rng.choice(list(FOODS))
    eaters = [x.replace("_", " ") for x in FOODS[food].split()]
    truth = rng.random() < 0.55
    if truth:
        a = next(x for x in ANIMALS if x["name"] == rng.choice(eaters) or x["name"] == eaters[0])
    else:
        a = rng.choice(
            [
                x
                for x in ANIMALS
                if x["name"] not in eaters
                and food not in x["food"]
                and "everything" not in x["food"]
                and "meat" not in x["food"]
            ]
        )
    p = a["plural"]
    full = f"Yes, {p} eat {food}." if truth else f"No, {p} eat {a['food']}."
    return [
        Turn(
            say(
                rng,
                [
                    "Do {p} eat {f}?",
                    "Does {a} eat {f}?",
                    "Can {p} eat {f}?",
                    "Do {p} like {f}?",
                    "Is {f} food for {p}?",
                ],
                p=p,
                a=a_an(a["name"]),
                f=food,
            ),
            full,
            "Yes" if truth else "No",
            think(rng, f"if {p} eat {food}", f"{cap(p)} eat {a['food']}."),
        )
    ]


def animal_misc(rng):
    if rng.random() < 0.45:
        return animal_yes_no(rng)
    if rng.random() < 0.4:
        g = rng.choice(list(GROUPS))
        full = f"A group of {g} is called {GROUPS[g]}."
        return [
            Turn(
                say(
                    rng,
                    [
                        "What is a group of {g} called?",
                        "What do you call a group of {g}?",
                        "How is a group of {g} called?",
                        "Name for a group of {g}?",
                    ],
                    g=g,
                ),
                full,
                cap(GROUPS[g]),
                think(rng, f"how a group of {g} is called", full),
            )
        ]
    core, short, full = rng.choice(SUPERLATIVES)
    c = say(rng, core)
    q = say(
        rng,
        [
            "[What is|What's|Which is] the {c}?",
            "[Tell me|Name] the {c}.",
            "Do you know the {c}?",
            "Can you name the {c}?",
            "{c}?",
            "What do you call the {c}?",
        ],
        c=c,
    )
    return [Turn(q, full, short, think(rng, f"for the {c}", full))]
