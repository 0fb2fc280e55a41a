"""Things to remember, to read, to copy, to spell; small programs."""

from __future__ import annotations

from grammar import a_an, cap, join_list, say
from topics.animals import animals
from topics.arithmetic import arithmetic
from topics.counting import in_words
from topics.countries import countries
from topics.facts import number_facts, planets
from topics.turn import Turn, any_word, nonsense
from topics.vocabulary import colours, opposites
from words import PHRASES
from world import CITIES, COLOURS, FRUIT, NAMES, RHYMES, THING_EMOJI, WORD_LIST


def memory(rng):
    kind = rng.choice(["name", "number", "colour", "pet", "live", "word", "age", "two", "like", "read"])
    n = rng.choice(NAMES) if rng.random() < 0.8 else cap(nonsense(rng))
    if kind == "read":
        return reading(rng)

    def filler():
        return rng.choice([animals, countries, opposites, colours, arithmetic, planets])(rng)[: rng.choice([1, 1, 2])]

    mid = filler() if rng.random() < 0.55 else []
    if kind == "name":
        t1 = Turn(
            say(
                rng,
                [
                    "My name is {n}.",
                    "Hi, my name is {n}.",
                    "I am {n}.",
                    "Hello, I am {n}.",
                    "You can call me {n}.",
                    "Hi! I'm {n}.",
                ],
                n=n,
            ),
            say(rng, ["Nice to meet you, {n}! How can I help you?", "Hello {n}! What can I do for you?"], n=n),
            None,
            f"The user is called {n}. I will say hello.",
        )
        t2 = Turn(
            say(
                rng,
                [
                    "What is my name?",
                    "What's my name?",
                    "Do you remember my name?",
                    "Who am I?",
                    "Do you know what I am called?",
                    "Can you tell me my name?",
                ],
            ),
            f"Your name is {n}.",
            n,
            f"The user said that the name is {n}.",
        )
    elif kind == "number":
        x = rng.randint(1, 99)
        t1 = Turn(
            say(
                rng,
                [
                    "Remember the number {x}.",
                    "Please remember this number: {x}.",
                    "My lucky number is {x}.",
                    "Keep the number {x} in mind.",
                    "The secret number is {x}.",
                ],
                x=x,
            ),
            say(rng, ["Okay, I will remember the number {x}."], x=x),
            None,
            f"I should remember {x}.",
        )
        t2 = Turn(
            say(
                rng,
                [
                    "What was the number?",
                    "Which number should you remember?",
                    "What number did I tell you?",
                    "What is the number?",
                    "Do you remember the number?",
                ],
            ),
            f"The number is {x}.",
            str(x),
            f"The number from before was {x}.",
        )
    elif kind == "colour":
        x = rng.choice(COLOURS)
        t1 = Turn(
            say(rng, ["My favourite colour is {x}.", "I like {x} best of all colours.", "I love the colour {x}."], x=x),
            f"{cap(x)} is a lovely colour!",
            None,
            f"The user likes {x}.",
        )
        t2 = Turn(
            say(
                rng, ["What is my favourite colour?", "Which colour do I like?", "Do you remember my favourite colour?"]
            ),
            f"Your favourite colour is {x}.",
            cap(x),
            f"The user said that it is {x}.",
        )
    elif kind == "pet":
        x = rng.choice(["dog", "cat", "rabbit", "parrot", "horse", "mouse", "turtle", "goldfish"])
        t1 = Turn(
            say(rng, ["I have a {x} called {n}.", "My {x} is called {n}.", "I have a {x}. Its name is {n}."], x=x, n=n),
            f"{n} is a nice name for a {x}!",
            None,
            f"The user has a {x} with the name {n}.",
        )
        t2 = rng.choice(
            [
                Turn(
                    say(rng, ["What is the name of my {x}?", "What is my {x} called?", "How is my {x} called?"], x=x),
                    f"Your {x} is called {n}.",
                    n,
                    f"The {x} is called {n}.",
                ),
                Turn(
                    say(rng, ["What pet do I have?", "Which animal do I have?", "What kind of pet do I have?"]),
                    f"You have a {x}.",
                    cap(x),
                    f"The user has a {x}.",
                ),
            ]
        )
    elif kind == "live":
        x = rng.choice(CITIES)
        t1 = Turn(
            say(rng, ["I live in {x}.", "I am from {x}.", "My home is in {x}."], x=x),
            f"{x} is a nice place to live!",
            None,
            f"The user lives in {x}.",
        )
        t2 = Turn(
            say(
                rng,
                [
                    "Where do I live?",
                    "In which city do I live?",
                    "Which city am I from?",
                    "Do you remember where I live?",
                ],
            ),
            f"You live in {x}.",
            x,
            f"The user said: {x}.",
        )
    elif kind == "word":
        x = any_word(rng)
        t1 = Turn(
            say(
                rng,
                [
                    "The secret word is {x}.",
                    "Remember the word {x}.",
                    "The password is {x}.",
                    "Keep this word in mind: {x}.",
                ],
                x=x,
            ),
            f"Okay, I will remember the word {x}.",
            None,
            f"I should remember the word {x}.",
        )
        t2 = Turn(
            say(
                rng,
                [
                    "What is the secret word?",
                    "What was the word?",
                    "Which word should you remember?",
                    "What is the password?",
                    "Tell me the word again.",
                ],
            ),
            f"The word is {x}.",
            x,
            f"The word was {x}.",
        )
    elif kind == "age":
        x = rng.randint(4, 90)
        t1 = Turn(
            say(rng, ["I am {x} years old.", "My age is {x}.", "I turned {x} today."], x=x),
            say(rng, ["{x} is a good age!"], x=x),
            None,
            f"The user is {x} years old.",
        )
        t2 = Turn(
            say(rng, ["How old am I?", "What is my age?", "Do you remember how old I am?"]),
            f"You are {x} years old.",
            str(x),
            f"The user said {x}.",
        )
    elif kind == "like":
        x = rng.choice(
            [
                "music",
                "football",
                "pizza",
                "chess",
                "painting",
                "swimming",
                "reading",
                "cooking",
                "dancing",
                "tennis",
                "gardening",
                "singing",
            ]
        )
        t1 = Turn(
            say(rng, ["I like {x}.", "My hobby is {x}.", "I love {x}."], x=x),
            f"{cap(x)} is great!",
            None,
            f"The user likes {x}.",
        )
        t2 = Turn(
            say(rng, ["What do I like?", "What is my hobby?", "What did I say I like?"]),
            f"You like {x}.",
            cap(x),
            f"The user likes {x}.",
        )
    else:
        m = rng.choice([z for z in NAMES if z != n])
        x, y = rng.sample(COLOURS, 2)
        t1 = Turn(
            f"{n} has a {x} ball and {m} has a {y} ball.",
            say(rng, ["Okay.", "I see. What would you like to know?"]),
            None,
            f"{n}: {x}. {m}: {y}.",
        )
        who, col = rng.choice([(n, x), (m, y)])
        t2 = rng.choice(
            [
                Turn(
                    f"What colour is the ball of {who}?",
                    f"The ball of {who} is {col}.",
                    cap(col),
                    f"{who} has the {col} ball.",
                ),
                Turn(
                    f"Who has the {col} ball?", f"{who} has the {col} ball.", who, f"The {col} ball belongs to {who}."
                ),
            ]
        )
        if rng.random() < 0.5:
            return [Turn(t1.user + " " + t2.user, t2.answer, t2.short, t2.think)]
    return [t1, *mid, t2]


def reading(rng):
    """A sentence or two with made-up facts, then a question about them."""
    who = rng.sample(NAMES, rng.randint(2, 3))
    kind = rng.choice(["live", "like", "age", "has", "job"])
    if kind == "live":
        vals, pat, ask, ans = (
            rng.sample(CITIES, len(who)),
            "{n} lives in {v}",
            ["Where does {n} live?", "In which city does {n} live?"],
            "{n} lives in {v}.",
        )
        rev, rans = "Who lives in {v}?", "{n} lives in {v}."
    elif kind == "like":
        vals, pat, ask, ans = rng.sample(FRUIT, len(who)), "{n} likes {v}", ["What does {n} like?"], "{n} likes {v}."
        rev, rans = "Who likes {v}?", "{n} likes {v}."
    elif kind == "age":
        vals, pat, ask, ans = (
            [str(x) for x in rng.sample(range(3, 90), len(who))],
            "{n} is {v} years old",
            ["How old is {n}?"],
            "{n} is {v} years old.",
        )
        rev, rans = "Who is {v} years old?", "{n} is {v} years old."
    elif kind == "has":
        vals, pat, ask, ans = (
            [
                a_an(x)
                for x in rng.sample(
                    [
                        w
                        for w in WORD_LIST
                        if w
                        not in (
                            "butter",
                            "music",
                            "school",
                            "rain",
                            "milk",
                            "bread",
                            "water",
                            "cheese",
                            "coffee",
                            "earth",
                            "honey",
                        )
                    ],
                    len(who),
                )
            ],
            "{n} has {v}",
            ["What does {n} have?"],
            "{n} has {v}.",
        )
        rev, rans = "Who has {v}?", "{n} has {v}."
    else:
        vals, pat, ask, ans = (
            [
                a_an(x)
                for x in rng.sample(
                    [
                        "teacher",
                        "doctor",
                        "baker",
                        "farmer",
                        "pilot",
                        "nurse",
                        "cook",
                        "painter",
                        "singer",
                        "driver",
                        "gardener",
                        "sailor",
                    ],
                    len(who),
                )
            ],
            "{n} is {v}",
            ["What is the job of {n}?", "What does {n} do for work?"],
            "{n} is {v}.",
        )
        rev, rans = "Who is {v}?", "{n} is {v}."
    facts = [pat.format(n=n, v=v) for n, v in zip(who, vals, strict=True)]
    text = (join_list(facts) if rng.random() < 0.5 else ". ".join(facts)) + "."
    i = rng.randrange(len(who))
    if rng.random() < 0.6:
        q, a, s = say(rng, ask, n=who[i]), ans.format(n=who[i], v=vals[i]), cap(vals[i])
    else:
        q, a, s = rev.format(v=vals[i]), rans.format(n=who[i], v=vals[i]), who[i]
    turns = [Turn(f"{text} {q}", a, s, f"The text says: {facts[i]}.")]
    if rng.random() < 0.35:
        j = rng.randrange(len(who))
        turns.append(
            Turn(
                say(rng, ["And {n}?", "What about {n}?"], n=who[j])
                if rng.random() < 0.5 and a == ans.format(n=who[i], v=vals[i]) and q != rev.format(v=vals[i])
                else rev.format(v=vals[j]),
                ans.format(n=who[j], v=vals[j]),
                None,
                f"The text says: {facts[j]}.",
            )
        )
    return turns


def text_tasks(rng):
    kind = rng.choice(
        [
            "repeat",
            "times",
            "spell",
            "letters",
            "first",
            "last",
            "upper",
            "lower",
            "reverse_list",
            "rhyme",
            "alphabet",
            "capitalise",
            "emoji",
            "emoji_what",
            "translate_no",
            "count_words",
            "longer",
        ]
    )
    w = any_word(rng)
    if kind == "repeat":
        ws = rng.choice(
            [
                " ".join(any_word(rng) for _ in range(rng.randint(1, 6))),
                rng.choice(PHRASES),
                cap(" ".join(any_word(rng) for _ in range(rng.randint(2, 5)))) + rng.choice([".", "!", "?"]),
                str(rng.randint(1, 9999)),
                say(
                    rng,
                    ["I like {a}.", "The {b} is big.", "Good morning, {n}!", "Hello {n}!", "My {b} is {c}."],
                    a=rng.choice(WORD_LIST),
                    b=rng.choice(WORD_LIST),
                    n=rng.choice(NAMES),
                    c=rng.choice(COLOURS),
                ),
            ]
        )
        q = say(
            rng,
            [
                "Repeat after me: {w}",
                "Say: {w}",
                "Please repeat: {w}",
                "Repeat this: {w}",
                "Write exactly this: {w}",
                'Say "{w}".',
                "Repeat: {w}",
                "Echo this: {w}",
                "Please say: {w}",
                "Copy this text: {w}",
            ],
            w=ws.replace("{", ""),
        )
        return [Turn(q, ws, ws, f"I should repeat: {ws}", plain=True)]
    if kind == "times":
        n = rng.randint(2, 6)
        q = say(
            rng,
            [
                "Say {w} {n} times.",
                "Write the word {w} {n} times.",
                "Repeat the word {w} {n} times.",
                "Write {w} {n} times.",
                "Repeat {w} {n} times.",
            ],
            w=w,
            n=rng.choice([in_words(n), str(n)]),
        )
        return [Turn(q, " ".join([w] * n), None, f"I write {w} {n} times.", plain=True)]
    if kind == "spell":
        full = f"{cap(w)} is spelled {'-'.join(w.upper())}."
        return [
            Turn(
                say(
                    rng,
                    ["Spell [the word |]{w}.", "How do you spell {w}?", "Can you spell {w}?", "How is {w} spelled?"],
                    w=w,
                ),
                full,
                "-".join(w.upper()),
                f"The letters are {', '.join(w.upper())}.",
                plain=True,
            )
        ]
    if kind == "letters":
        full = f"The word {w} has {len(w)} letters."
        return [
            Turn(
                say(
                    rng,
                    [
                        "How many letters does [the word |]{w} have?",
                        "How many letters are in {w}?",
                        "Count the letters in {w}.",
                    ],
                    w=w,
                ),
                full,
                str(len(w)),
                f"I count: {', '.join(w)}. That is {len(w)}.",
            )
        ]
    if kind in ("first", "last"):
        letter = (w[0] if kind == "first" else w[-1]).upper()
        return [
            Turn(
                say(
                    rng,
                    [
                        "What is the {k} letter of {w}?",
                        "What letter does {w} {v} with?",
                        "Tell me the {k} letter of the word {w}.",
                    ],
                    k=kind,
                    w=w,
                    v="start" if kind == "first" else "end",
                ),
                f"The {kind} letter of {w} is {letter}.",
                letter,
                f"The letters are {', '.join(w.upper())}.",
            )
        ]
    if kind == "upper":
        return [
            Turn(
                say(
                    rng, ["Write {w} in capital letters.", "Write the word {w} in upper case.", "{w} in capitals?"], w=w
                ),
                w.upper(),
                w.upper(),
                f"In capital letters: {w.upper()}.",
                plain=True,
            )
        ]
    if kind == "lower":
        return [
            Turn(
                say(rng, ["Write {w} in small letters.", "Write the word {w} in lower case."], w=w.upper()),
                w,
                w,
                f"In small letters: {w}.",
                plain=True,
            )
        ]
    if kind == "capitalise":
        xs = rng.sample(WORD_LIST, 3)
        q = say(rng, ["Which of these words is first in the alphabet: {x}?", "Sort these words: {x}"], x=", ".join(xs))
        if q.startswith("Sort"):
            full = ", ".join(sorted(xs))
            return [Turn(q, full + ".", full, f"By the first letters: {full}.")]
        return [
            Turn(
                q,
                f"{cap(min(xs))} comes first.",
                min(xs),
                f"I compare the first letters: {', '.join(x[0] for x in xs)}.",
            )
        ]
    if kind == "reverse_list":
        xs = [any_word(rng) for _ in range(rng.randint(3, 5))]
        q = say(
            rng,
            [
                "Say these words in reverse order: {x}",
                "Reverse this list: {x}",
                "Write these words backwards, last one first: {x}",
            ],
            x=", ".join(xs),
        )
        full = ", ".join(reversed(xs))
        return [Turn(q, full, full, f"The last word is {xs[-1]}. Reversed: {full}.", plain=True)]
    if kind == "rhyme":
        r = rng.choice(RHYMES)
        a, b = rng.sample(r, 2)
        return [
            Turn(
                say(
                    rng,
                    [
                        "What rhymes with {a}?",
                        "[Tell me|Give me|Find] a word that rhymes with {a}.",
                        "Which word rhymes with {a}?",
                        "rhyme for {a}?",
                    ],
                    a=a,
                ),
                f"{cap(b)} rhymes with {a}.",
                cap(b),
                f"{a} and {b} sound alike at the end.",
            )
        ]
    if kind == "alphabet":
        i = rng.randrange(25)
        if rng.random() < 0.3:
            full = " ".join(chr(65 + k) for k in range(26))
            return [
                Turn(
                    say(
                        rng,
                        ["Say the alphabet.", "What is the alphabet?", "Write the alphabet.", "Recite the alphabet."],
                    ),
                    full,
                    None,
                    "The alphabet has 26 letters.",
                    plain=True,
                )
            ]
        return [
            Turn(
                say(
                    rng,
                    [
                        "What letter comes after {l}?",
                        "Which letter follows {l} in the alphabet?",
                        "What is the letter after {l}?",
                    ],
                    l=chr(65 + i),
                ),
                f"After {chr(65 + i)} comes {chr(66 + i)}.",
                chr(66 + i),
                f"{chr(65 + i)}, {chr(66 + i)}.",
            )
        ]
    if kind == "emoji":
        t = rng.choice(THING_EMOJI)
        return [
            Turn(
                say(
                    rng,
                    [
                        "[Show|Give|Send] me [a {t} emoji|an emoji of a {t}].",
                        "What is the emoji for {t}?",
                        "{t} emoji?",
                        "Which emoji means {t}?",
                        "Show me a {t}.",
                    ],
                    t=t["thing"],
                ),
                t["emoji"],
                t["emoji"],
                f"The emoji for {t['thing']} is {t['emoji']}.",
                plain=True,
            )
        ]
    if kind == "emoji_what":
        t = rng.choice(THING_EMOJI)
        article = {"sun": "the ", "moon": "the ", "fire": "", "apple": "an ", "owl": "an "}.get(t["thing"], "a ")
        return [
            Turn(
                say(
                    rng,
                    ["What does {e} mean?", "What is this: {e}?", "What is {e}?", "{e}", "What do you see? {e}"],
                    e=t["emoji"],
                ),
                f"{t['emoji']} is {article}{t['thing']}.",
                cap(t["thing"]),
                f"The emoji shows: {t['thing']}.",
            )
        ]
    if kind == "count_words":
        xs = [any_word(rng) for _ in range(rng.randint(2, 6))]
        return [
            Turn(
                say(rng, ["How many words are in this: {x}?", "Count the words: {x}"], x=" ".join(xs)),
                f"There are {len(xs)} words.",
                str(len(xs)),
                f"I count: {', '.join(xs)}. That is {len(xs)}.",
            )
        ]
    if kind == "longer":
        a, b = rng.sample(WORD_LIST, 2)
        if len(a) == len(b):
            return text_tasks(rng)
        r = max(a, b, key=len)
        return [
            Turn(
                say(rng, ["Which word is longer: {a} or {b}?", "What is the longer word, {a} or {b}?"], a=a, b=b),
                f"{cap(r)} is longer.",
                r,
                f"{a} has {len(a)} letters and {b} has {len(b)}.",
            )
        ]
    return number_facts(rng)


CODE = [
    ("prints hello world", "python", 'print("Hello, world!")'),
    ("adds two numbers", "python", "def add(a, b):\n    return a + b"),
    ("multiplies two numbers", "python", "def multiply(a, b):\n    return a * b"),
    ("counts from 1 to 10", "python", "for i in range(1, 11):\n    print(i)"),
    ("reverses a string", "python", "def reverse(text):\n    return text[::-1]"),
    ("checks if a number is even", "python", "def is_even(n):\n    return n % 2 == 0"),
    ("finds the largest number in a list", "python", "def largest(numbers):\n    return max(numbers)"),
    (
        "computes the factorial of a number",
        "python",
        "def factorial(n):\n    return 1 if n <= 1 else n * factorial(n - 1)",
    ),
    ("sums a list of numbers", "python", "def total(numbers):\n    return sum(numbers)"),
    ("greets a person by name", "python", 'def greet(name):\n    return "Hello, " + name + "!"'),
    ("prints hello world", "javascript", 'console.log("Hello, world!");'),
    (
        "prints hello world",
        "c",
        '#include <stdio.h>\n\nint main(void) {\n    printf("Hello, world!\\n");\n    return 0;\n}',
    ),
    ("adds two numbers", "javascript", "function add(a, b) {\n  return a + b;\n}"),
]


LANGS = {"python": "Python", "javascript": "JavaScript", "c": "C"}


def code(rng):
    what, lang, src = rng.choice(CODE)
    kind = "program" if "print" in what or "counts" in what else "function"
    q = say(
        rng,
        [
            "Write a {l} {k} that {w}.",
            "[Show|Give] me a {l} {k} that {w}.",
            "Can you write a {l} {k} that {w}?",
            "I need {l} code that {w}.",
            "How do I write a {l} {k} that {w}?",
            "Write {l} code that {w}.",
        ],
        l=LANGS[lang],
        k=kind,
        w=what,
    )
    full = f"Here is a {LANGS[lang]} {kind} that {what}:\n\n```{lang}\n{src}\n```"
    return [
        Turn(
            q,
            full,
            None,
            f"The user wants a {LANGS[lang]} {kind} that {what}. I will write it in a code block.",
            plain=True,
        )
    ]
