"""Spanish, French, German, Japanese and Chinese."""

from __future__ import annotations

from grammar import say
from topics.turn import Turn, think
from world import CAPITAL_Q, COUNTRY_NAMES, FOLLOW_Q, LANG_NAME, SMALLTALK_L, SUM_L, UNKNOWN_L, UNKNOWN_L_Q, WORDS

OPEN_L = {
    "es": ["Hola, ", "Dime: ", "Oye, ", "Buenos días. ", "Una pregunta: "],
    "fr": ["Bonjour, ", "Dis-moi, ", "Salut ! ", "Une question : ", "Excusez-moi, "],
    "de": ["Hallo, ", "Sag mal, ", "Guten Tag. ", "Eine Frage: ", "Kannst du mir sagen: "],
    "ja": ["こんにちは。", "ねえ、", "質問です。", "お願いします。", "では、", "あの、"],
    "zh": ["你好，", "我想问，", "老师，", "一个问题：", "您好，", "对了，"],
}


def languages(rng):
    lang = rng.choice(list(LANG_NAME))
    kind = rng.choice(["talk", "talk", "capital", "capital", "sum", "word", "word", "word", "unknown", "back"])
    if kind == "talk":
        turns = []
        for _ in range(rng.choices([1, 2, 3], [65, 25, 10])[0]):
            q, a = rng.choice(SMALLTALK_L[lang])
            # top-level alternatives are separated by | outside brackets
            turns.append(
                Turn(
                    say(rng, "[" + q + "]"),
                    a,
                    None,
                    f"The user writes in {LANG_NAME[lang]}, so I answer in {LANG_NAME[lang]}.",
                )
            )
        return turns
    if kind == "capital":
        c = rng.choice(COUNTRY_NAMES)
        qs, a = CAPITAL_Q[lang]

        def ans(c):
            n = c[lang]

            def de_el(s):
                return (
                    s.replace("de el ", "del ")
                    .replace("de le ", "du ")
                    .replace("de les ", "des ")
                    .replace("von die Türkei", "der Türkei")
                    .replace("von die USA", "der USA")
                )

            return de_el(a.format(c=n, k=c[lang + "_cap"])), n, de_el

        full, n, fix = ans(c)
        q = fix(rng.choice(qs).format(c=n))
        if rng.random() < 0.35:
            o = rng.choice(OPEN_L[lang])
            q = o + (q if lang in ("ja", "zh") or o.endswith(("! ", ". ")) else q[0].lower() + q[1:])
        turns = [
            Turn(
                q,
                full,
                c[lang + "_cap"],
                f"The user asks in {LANG_NAME[lang]} for the capital of {c['en']}. It is {c[lang + '_cap']}.",
            )
        ]
        if rng.random() < 0.4:
            c = rng.choice(COUNTRY_NAMES)
            full, n, fix = ans(c)
            turns.append(
                Turn(
                    fix(rng.choice(FOLLOW_Q[lang]).format(c=n)),
                    full,
                    c[lang + "_cap"],
                    f"Now the capital of {c['en']}. It is {c[lang + '_cap']}.",
                )
            )
        return turns
    if kind == "sum":
        a, b = rng.randint(0, 20), rng.randint(0, 20)
        q, ans = SUM_L[lang]
        return [
            Turn(
                q.format(a=a, b=b),
                ans.format(a=a, b=b, c=a + b),
                str(a + b),
                f"{a} + {b} = {a + b}.",
            )
        ]
    if kind == "unknown":
        return [
            Turn(
                rng.choice(UNKNOWN_L_Q[lang]),
                UNKNOWN_L[lang],
                None,
                f"This is a question in {LANG_NAME[lang]}, but I do not know the answer.",
            )
        ]
    w = rng.choice(WORDS)
    v = w[lang]
    if kind == "back" and lang not in ("en",):
        full = f"The {LANG_NAME[lang]} {'word' if ' ' not in v else 'phrase'} {v} means {w['en']}."
        return [
            Turn(
                say(
                    rng,
                    [
                        "What does {v} mean?",
                        "What does {v} mean in English?",
                        "What is {v} in English?",
                        "Translate {v} to English.",
                        "What does the {l} word {v} mean?",
                    ],
                    v=v,
                    l=LANG_NAME[lang],
                ),
                full,
                w["en"],
                think(rng, f"what {v} means", f"{v} is {LANG_NAME[lang]} and means {w['en']}."),
            )
        ]
    full = f"In {LANG_NAME[lang]}, {w['en']} is {v}."
    turns = [
        Turn(
            say(
                rng,
                [
                    "How do you say {w} in {l}?",
                    "What is {w} in {l}?",
                    "What is the {l} word for {w}?",
                    "Translate {w} [into|to] {l}.",
                    "How do I say {w} in {l}?",
                    "{w} in {l}?",
                    "What is the word for {w} in {l}?",
                ],
                w=w["en"],
                l=LANG_NAME[lang],
            ),
            full,
            v,
            think(rng, f"for {w['en']} in {LANG_NAME[lang]}", f"It is {v}."),
        )
    ]
    if rng.random() < 0.4:
        if rng.random() < 0.5:
            l2 = rng.choice([other for other in LANG_NAME if other != lang])
            turns.append(
                Turn(
                    say(rng, ["And in {l}?", "What about {l}?", "And how do you say it in {l}?"], l=LANG_NAME[l2]),
                    f"In {LANG_NAME[l2]}, {w['en']} is {w[l2]}.",
                    w[l2],
                    think(rng, f"for {w['en']} in {LANG_NAME[l2]}", f"It is {w[l2]}."),
                )
            )
        else:
            w2 = rng.choice(WORDS)
            turns.append(
                Turn(
                    say(rng, ["And {w}?", "What about {w}?"], w=w2["en"]),
                    f"In {LANG_NAME[lang]}, {w2['en']} is {w2[lang]}.",
                    w2[lang],
                    think(rng, f"for {w2['en']} in {LANG_NAME[lang]}", f"It is {w2[lang]}."),
                )
            )
    return turns
