"""Counting, comparing, sorting, numbers in words."""

from __future__ import annotations

from grammar import cap, say
from topics.turn import Turn

NUM_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()


TENS_WORDS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(n):
    return NUM_WORDS[n] if n <= 20 else TENS_WORDS[n // 10] + ("-" + NUM_WORDS[n % 10] if n % 10 else "")


def counting(rng):
    kind = rng.choice(
        [
            "to",
            "from",
            "down",
            "even",
            "odd",
            "next",
            "before",
            "bigger",
            "words",
            "sort",
            "step",
            "parity",
            "double",
            "half",
            "max",
        ]
    )
    if kind == "to":
        n = rng.randint(3, 20)
        seq = list(range(1, n + 1))
        q = say(
            rng,
            [
                "Count to {n}.",
                "[Can you|Please] count to {n}[?|.]",
                "Count from 1 to {n}.",
                "Count up to {n}[, please|].",
            ],
            n=rng.choice([n, in_words(n)]),
        )
    elif kind == "from":
        a = rng.randint(0, 60)
        n = a + rng.randint(2, 12)
        seq = list(range(a, n + 1))
        q = say(
            rng,
            [
                "Count from {a} to {n}.",
                "[Can you|Please] count from {a} to {n}[?|.]",
                "List the numbers from {a} to {n}.",
                "Write all numbers from {a} to {n}.",
            ],
            a=a,
            n=n,
        )
    elif kind == "down" and rng.random() < 0.5:
        n = rng.randint(4, 40)
        seq = list(range(n, n - rng.randint(2, min(10, n)) - 1, -1))
        q = say(
            rng,
            [
                "Count from {a} to {n}.",
                "Count from {a} down to {n}.",
                "Count backwards from {a} to {n}.",
                "Can you count from {a} to {n}?",
            ],
            a=n,
            n=seq[-1],
        )
    elif kind == "down":
        n = rng.randint(3, 20)
        seq = list(range(n, rng.choice([-1, 0]), -1))
        q = say(
            rng,
            [
                "Count down from {n}[ to {e}|].",
                "Count backwards from {n}[ to {e}|].",
                "Give me a countdown from {n}[ to {e}|].",
            ],
            n=n,
            e=seq[-1],
        )
        if " to " not in q.split("from")[1]:
            seq = list(range(n, 0, -1))
    elif kind in ("even", "odd"):
        n = rng.randint(8, 24)
        seq = list(range(2 if kind == "even" else 1, n + 1, 2))
        q = say(
            rng,
            [
                "[List|Name|Tell me] the {k} numbers up to {n}.",
                "What are the {k} numbers up to {n}?",
                "Which {k} numbers are there up to {n}?",
            ],
            k=kind,
            n=n,
        )
    elif kind == "step":
        s, k = rng.choice([2, 3, 4, 5, 10]), rng.randint(5, 10)
        seq = [s * x for x in range(1, k + 1)]
        q = say(
            rng,
            ["Count by {s} up to {n}.", "Count in steps of {s} up to {n}.", "List the multiples of {s} up to {n}."],
            s=rng.choice([s, in_words(s)]),
            n=seq[-1],
        )
    if kind in ("to", "from", "down", "even", "odd", "step"):
        full = ", ".join(map(str, seq)) + "."
        return [
            Turn(
                q,
                full,
                None,
                f"I write the numbers {seq[0]} to {seq[-1]}"
                + ("." if kind in ("to", "from", "down") else f" in steps of {abs(seq[1] - seq[0])}."),
            )
        ]
    n, m = rng.randint(1, 99), rng.randint(1, 99)
    while m == n:
        m = rng.randint(1, 99)
    if kind == "next":
        return [
            Turn(
                say(
                    rng,
                    ["What number comes after {n}?", "Which number is next after {n}?", "What comes after {n}?"],
                    n=n,
                ),
                f"After {n} comes {n + 1}.",
                str(n + 1),
                f"{n} + 1 = {n + 1}.",
            )
        ]
    if kind == "before":
        return [
            Turn(
                say(rng, ["What number comes before {n}?", "Which number is before {n}?"], n=n),
                f"Before {n} comes {n - 1}.",
                str(n - 1),
                f"{n} - 1 = {n - 1}.",
            )
        ]
    if kind == "bigger":
        w = rng.choice(["larger", "bigger", "greater", "smaller"])
        r = min(n, m) if w == "smaller" else max(n, m)
        return [
            Turn(
                say(
                    rng,
                    [
                        "Which [number |]is {w}, {n} or {m}?",
                        "What is {w}: {n} or {m}?",
                        "{n} or {m}: which one is {w}?",
                    ],
                    w=w,
                    n=n,
                    m=m,
                ),
                f"{r} is {w}.",
                str(r),
                f"I compare {n} and {m}. {r} is {w}.",
            )
        ]
    if kind == "words":
        if rng.random() < 0.5:
            return [
                Turn(
                    say(
                        rng,
                        [
                            "Write {n} in words.",
                            "How do you write {n} in words?",
                            "Spell the number {n}.",
                            "{n} in words?",
                        ],
                        n=n,
                    ),
                    f"{n} in words is {in_words(n)}.",
                    in_words(n),
                    f"{n} is {in_words(n)}.",
                )
            ]
        return [
            Turn(
                say(rng, ["Write {n} as a number.", "What is {n} as a number?", "Write {n} in digits."], n=in_words(n)),
                f"{cap(in_words(n))} is {n}.",
                str(n),
                f"{in_words(n)} is {n}.",
            )
        ]
    if kind == "sort":
        xs = rng.sample(range(1, 60), rng.randint(3, 5))
        down = rng.random() < 0.25
        full = ", ".join(map(str, sorted(xs, reverse=down)))
        return [
            Turn(
                say(
                    rng,
                    [
                        "Sort these numbers{d}: {x}",
                        "Sort {x}{d}.",
                        "Put these numbers in order{d}: {x}.",
                        "Arrange {x}{d}.",
                    ],
                    x=", ".join(map(str, xs)),
                    d=" from largest to smallest" if down else rng.choice(["", " from smallest to largest"]),
                ),
                full + ".",
                full,
                f"The {'largest' if down else 'smallest'} is {(max if down else min)(xs)}. In order: {full}.",
            )
        ]
    if kind == "parity":
        par = "even" if n % 2 == 0 else "odd"
        w = rng.choice(["even", "odd"])
        if rng.random() < 0.5:
            return [
                Turn(
                    say(rng, ["Is {n} even or odd?", "Is {n} an even or an odd number?"], n=n),
                    f"{n} is {par}.",
                    cap(par),
                    f"The last digit of {n} is {n % 10}, so it is {par}.",
                )
            ]
        return [
            Turn(
                say(rng, ["Is {n} {w}?", "Is {n} an {w} number?"], n=n, w=w),
                f"{'Yes' if w == par else 'No'}, {n} is {par}.",
                "Yes" if w == par else "No",
                f"The last digit of {n} is {n % 10}, so it is {par}.",
            )
        ]
    if kind == "double":
        k = rng.randint(1, 50)
        return [
            Turn(
                say(
                    rng,
                    [
                        "What is double {k}?",
                        "What is twice {k}?",
                        "What is the double of {k}?",
                        "What is two times {k}?",
                    ],
                    k=k,
                ),
                f"Double {k} is {2 * k}.",
                str(2 * k),
                f"{k} + {k} = {2 * k}.",
            )
        ]
    if kind == "half":
        k = rng.randint(1, 50)
        return [
            Turn(
                say(rng, ["What is half of {k}?", "What is the half of {k}?", "Half of {k}?"], k=2 * k),
                f"Half of {2 * k} is {k}.",
                str(k),
                f"{k} + {k} = {2 * k}, so half is {k}.",
            )
        ]
    xs = rng.sample(range(1, 99), rng.randint(3, 5))
    w = rng.choice(["largest", "smallest", "biggest"])
    r = min(xs) if w == "smallest" else max(xs)
    return [
        Turn(
            say(
                rng,
                ["Which is the {w} number: {x}?", "What is the {w} of {x}?", "Find the {w} number in this list: {x}."],
                w=w,
                x=", ".join(map(str, xs)),
            ),
            f"The {w} number is {r}.",
            str(r),
            f"I look at {', '.join(map(str, xs))}. The {w} is {r}.",
        )
    ]
