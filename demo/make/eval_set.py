"""The held-out evaluation: wordings (and number pairs) that the training data does not contain.

`python eval_set.py OUT.jsonl` writes one JSON object a line:
  id, category, messages, tools?, enable_thinking, max_tokens,
  accept: {"any": [...]} | {"all": [...]} | {"equals": "..."} | {"tool": {"name", "arguments"}}   (text is compared
          without case, in the part after </think>), optionally {"not": [...]}
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from grammar import a_an, cap, say
from stories import HEROES, PLACES, at
from tools import TOOLS
from topics.text import CODE, LANGS
from topics.turn import held_out
from world import (
    ANIMALS,
    CATEGORIES,
    CITIES,
    COUNTRIES,
    COUNTRY_NAMES,
    DAYS,
    EMOJI,
    EVERYDAY,
    FAMOUS,
    FRUIT,
    LANG_NAME,
    MIXES,
    MONTHS,
    NAMES,
    NUMBER_FACTS,
    OPPOSITES,
    ORDINALS,
    PASTS,
    PLANETS,
    PLURALS,
    SUPERLATIVES,
    TECH,
    THING_COLOURS,
    THING_EMOJI,
    WORD_LIST,
    WORDS,
)

NO = ["do not know"]


def norm(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def build() -> list[dict]:
    rng = random.Random(20240)
    items: list[dict] = []

    def add(category, user, accept, system=None, history=(), thinking=False, tools=None, max_tokens=80):
        messages = [{"role": "system", "content": system}] if system else []
        for u, a in history:
            messages += [{"role": "user", "content": u}, {"role": "assistant", "content": a}]
        messages.append({"role": "user", "content": user})
        n = sum(i["category"] == category for i in items)
        item = {
            "id": f"{category}-{n:02d}",
            "category": category,
            "messages": messages,
            "enable_thinking": thinking,
            "max_tokens": 400 if thinking else max_tokens,
            "accept": accept,
        }
        if tools:
            item["tools"] = tools
        items.append(item)

    def country(name):
        return next(c for c in COUNTRIES if c["name"] == name)

    # -- countries
    forms = [
        "Do you happen to know {c}'s capital city?",
        "I am looking for the name of the capital of {c}.",
        "Hello! Which city is the capital of {c}? I forgot.",
        "In {c}, which city is the capital?",
        "For my homework: what is the capital of {c}?",
        "Please give me the capital city of {c}.",
    ]
    for i, c in enumerate(rng.sample(COUNTRIES, 36)):
        add("capital", forms[i % len(forms)].format(c=c["name"]), {"any": [c["capital"]], "not": NO})
    for i, c in enumerate(rng.sample(COUNTRIES, 12)):
        add(
            "thinking",
            ["What could be the capital of {c}?", "Do you remember the capital of {c}?"][i % 2].format(c=c["name"]),
            {"any": [c["capital"]], "not": NO},
            thinking=True,
        )
    first = [country(n) for n in rng.sample(FAMOUS, 20)]
    second = rng.sample(COUNTRIES, 20)
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        form = [
            "Alright, and what about {c}?",
            "Good. And {c}, which city is it there?",
            "Fine, and the one of {c}?",
            "Thank you. And what about {c}?",
        ][i % 4]
        add(
            "capital-follow-up",
            form.format(c=b["name"]),
            {"any": [b["capital"]], "not": NO},
            history=[(f"What is the capital of {a['name']}?", f"The capital of {a['name']} is {a['capital']}.")],
        )
    for i, c in enumerate(rng.sample(FAMOUS, 16)):
        c = country(c)
        if i % 2:
            add(
                "country-other",
                ["Tell me, on what continent can I find {c}?", "{C} lies on which continent?"][i // 2 % 2].format(
                    c=c["name"], C=cap(c["name"])
                ),
                {"any": c["continent"].split(" and "), "not": NO},
            )
        else:
            add(
                "country-other",
                ["Which language would I hear in {c}?", "If I travel to {c}, what language do they speak?"][
                    i // 2 % 2
                ].format(c=c["name"]),
                {"any": re.split(", | and ", c["languages"]), "not": NO},
            )
    for i, c in enumerate(rng.sample(COUNTRIES, 14)):
        add(
            "country-reverse",
            ["The city of {k} is the capital of which country?", "Please tell me: {k} is the capital of what?"][
                i % 2
            ].format(k=c["capital"]),
            {"any": [c["name"].removeprefix("the ")], "not": NO},
        )
    for i, c in enumerate(rng.sample(FAMOUS, 12)):
        c, d = country(c), country(rng.choice(FAMOUS))
        truth = i % 2 == 0 or d is c
        add(
            "country-yes-no",
            f"Would you say that {(c if truth else d)['capital']} is the capital of {c['name']}?",
            {"any": ["yes"]} if truth else {"all": ["no", c["capital"]]},
        )
    # -- animals and nature
    for i, a in enumerate(rng.sample(ANIMALS, 42)):
        n, p = a["name"], a["plural"]
        q, ok = [
            (f"What kind of food do {p} eat?", [re.split(",| and | or ", a["food"])[0]]),
            (f"I would like to know where {p} live.", [a["home"].split(" ")[-1], a["home"].split(",")[0]]),
            (f"Do you know what we call the baby of {a_an(n)}?", [a["baby"]]),
            (
                f"Which noise does {a_an(n)} make?",
                [a["sound"].split(" ")[-1] if a["sound"].startswith("makes") else a["sound"].split(" ")[0]],
            ),
            (f"Tell me the number of legs of {a_an(n)}.", ["no legs"] if a["legs"] == "0" else [a["legs"]]),
            (f"To which group of animals does {a_an(n)} belong?", [a["kind"]]),
            (
                f"Please tell me something interesting about {p}.",
                [" ".join(f.split()[-3:]).rstrip(".") for f in (a["fact1"], a["fact2"])],
            ),
        ][i % 7]
        add("animals", q, {"any": ok, "not": NO})
    for a in ("swiftlet", "fieldfare"):
        r = next(x for x in ANIMALS if x["name"] == a)
        add("animals", f"Please describe the {a} to me.", {"any": ["bird", "thrush"], "not": NO})
    for i, p in enumerate(PLANETS):
        q, ok = [
            (f"Give me some information about {p['name']}.", [ORDINALS[i], p["fact"].split()[-1].strip(".")]),
            (f"Name the planet that is {ORDINALS[i]} from the sun.", [p["name"]]),
        ][i % 2]
        add("planets", q, {"any": ok, "not": NO})
    add("planets", "Please list all planets, starting from the sun.", {"all": [x["name"] for x in PLANETS]})
    for core, short, _ in rng.sample(SUPERLATIVES, 9):
        add("planets", f"Tell me please: which one is the {say(random.Random(1), core)}?", {"any": [short], "not": NO})
    for core, short, _ in rng.sample(NUMBER_FACTS, 12):
        add("numbers", f"Hello, how many {say(random.Random(1), core)}? Thanks a lot.", {"any": [short], "not": NO})
    # -- calendar, words, colours
    for i in range(6):
        add("calendar", f"Which day of the week follows {DAYS[i]}?", {"any": [DAYS[(i + 1) % 7]]})
    for j in (0, 3, 6, 8, 10):
        add("calendar", f"Which month do we have after {MONTHS[j][0]}?", {"any": [MONTHS[(j + 1) % 12][0]]})
        add("calendar", f"Tell me how many days there are in {MONTHS[j][0]}.", {"any": [str(MONTHS[j][1])]})
    for i, (a, b) in enumerate(rng.sample(OPPOSITES, 14)):
        add("words", [f"Please name the opposite of {a}.", f"What word is the opposite of {a}?"][i % 2], {"any": [b]})
    for i, (a, b) in enumerate(rng.sample(PLURALS, 14)):
        add(
            "words", [f"I need the plural of the word {a}.", f"What is the correct plural of {a}?"][i % 2], {"any": [b]}
        )
    for a, b in rng.sample(PASTS, 6):
        add("words", f"What is the simple past of {a}?", {"any": [b]})
    for t in rng.sample(THING_COLOURS, 10):
        add("colours", f"Do you know what colour {t['thing']} has?", {"any": [t["colour"]]})
    for a, b, c in rng.sample(MIXES, 4):
        add("colours", f"I mix {a} paint with {b} paint. Which colour do I get?", {"any": [c]})
    # -- arithmetic: number pairs that were never trained on
    pairs = {op: [] for op in "+-×"}
    for a in range(100):
        for b in range(100):
            for op in "+-×":
                if held_out(op, a, b) and (op != "-" or a >= b) and (op != "×" or min(a, b) >= 2):
                    pairs[op].append((a, b))
    for op, count in (("+", 24), ("-", 20)):
        for a, b in rng.sample(pairs[op], count):
            e = f"{a} {op} {b}"
            r = a + b if op == "+" else a - b
            add(
                "add-subtract",
                rng.choice(["What is {e}?", "{e} = ?", "Please calculate {e}."]).format(e=e),
                {"equals-number": r},
            )
    for a, b in rng.sample(
        [x for x in pairs["×"] if max(x) <= 12], min(12, len([x for x in pairs["×"] if max(x) <= 12]))
    ):
        add("times-table", f"What is {a} × {b}?", {"equals-number": a * b})
    for a, b in rng.sample([x for x in pairs["×"] if min(x) > 12], 10):
        add("multiply-2x2", f"What is {a} × {b}?", {"equals-number": a * b}, max_tokens=200)
    for op in "+-×":
        for a, b in rng.sample(pairs[op], 8):
            r = {"+": a + b, "-": a - b, "×": a * b}[op]
            add("math-thinking", f"Calculate {a} {op} {b}.", {"equals-number": r}, thinking=True)
    got = 0
    while got < 14:
        a, b = rng.randint(2, 30), rng.randint(1, 20)
        op = "+-"[got % 2]
        if (op == "-" and a <= b) or not held_out("word", op, a, b):
            continue
        n, m = rng.sample(NAMES, 2)
        f = rng.choice(FRUIT)
        q = (
            f"{n} has {a} {f}. Then {m} brings {b} more. How many {f} are there now?"
            if op == "+"
            else f"{n} has {a} {f}. {b} of them get lost. How many {f} does {n} still have?"
        )
        add("word-problems", q, {"equals-number": a + b if op == "+" else a - b})
        got += 1
    for a, n in [(7, 15), (31, 38), (55, 61), (12, 22), (3, 9)]:
        add("counting", f"Please count for me from {a} to {n}.", {"all": [", ".join(map(str, range(a, n + 1)))]})
    for k in rng.sample(range(2, 90), 5):
        add("counting", f"Tell me the number that comes after {k}.", {"any": [str(k + 1)]})
    for k in rng.sample([k for k in CATEGORIES if k not in ("oceans", "shapes")], 8):
        add(
            "lists",
            f"Please tell me the names of three {k}.",
            {"count": {"of": [re.sub(r"^(an?|the) ", "", x.strip()) for x in CATEGORIES[k].split(",")], "min": 3}},
        )
    # -- explanations
    for e in rng.sample(EVERYDAY, 20):
        core = e["questions"].split(";")[0]
        key = [w for w in re.findall(r"[a-z]+", e["answer"].lower()) if len(w) > 4][-3:]
        add("explain", f"Could you tell me: {core}? I would like to understand it.", {"any": key, "not": NO})
    keys = {
        "expert streaming": ["disk", "expert"],
        "a mixture of experts": ["expert"],
        "the router": ["expert"],
        "the shared expert": ["every token", "always"],
        "the qpack container": ["expert", "read"],
        "an LFU cache": ["least", "often", "used"],
        "a token": ["text"],
        "a tokenizer": ["token"],
        "a language model": ["token", "text"],
        "quantization": ["bits"],
        "linear attention": ["fixed"],
        "the KV cache": ["keys"],
        "swiftlet": ["expert", "bird"],
        "a cache": ["store", "fast"],
        "prefill": ["prompt"],
    }
    for i, (k, ok) in enumerate(keys.items()):
        n = TECH[k][0][0]
        add(
            "engine",
            [f"Could you please explain to me what {n} is?", f"What exactly is {n}?"][i % 2],
            {"any": ok, "not": NO},
            max_tokens=160,
        )
    add("engine", "Explain expert streaming in one paragraph, please.", {"all": ["expert", "disk"]}, max_tokens=160)
    add("engine", "Describe in simple words how expert streaming works.", {"all": ["expert", "disk"]}, max_tokens=160)
    add("engine", "What is a .qpack container good for?", {"any": ["expert", "read"], "not": NO}, max_tokens=160)
    # -- talk
    for q, ok in [
        ("Hello my friend!", ["hello", "hi"]),
        ("Hi, who are you please?", ["swiftlet tiny"]),
        ("Could you tell me your name?", ["swiftlet tiny"]),
        ("What kind of things can you do for me?", ["questions", "stories", "sums"]),
        ("Thank you for your help!", ["welcome", "pleasure"]),
        ("Goodbye and thanks!", ["goodbye", "bye", "welcome"]),
        ("Are you a real human being?", ["not a human", "language model"]),
        ("How are you doing my friend?", ["fine", "well"]),
        ("Please tell me a good joke.", ["!", "?"]),
        ("I feel so sad today.", ["sorry"]),
        ("I am so happy today!", ["glad", "wonderful"]),
        ("Would you tell me a riddle?", ["riddle"]),
        ("Could you write a little poem for me?", ["the"]),
        ("Good morning to you!", ["good morning"]),
        ("How big is your model?", ["million"]),
        ("Tell me who made you.", ["demo", "swiftlet"]),
    ]:
        add("talk", q, {"any": ok, "not": NO})
    # -- memory over turns
    for i, n in enumerate(rng.sample(NAMES, 8)):
        add(
            "memory",
            ["Could you say my name again?", "Tell me, what is my name?"][i % 2],
            {"any": [n]},
            history=[
                (f"Hello! My name is {n}.", f"Nice to meet you, {n}! How can I help you?"),
                ("What is the capital of France?", "The capital of France is Paris."),
            ][: 1 + i % 2],
        )
    for x in rng.sample(range(1, 99), 6):
        add(
            "memory",
            "Can you tell me the number again?",
            {"any": [str(x)]},
            history=[(f"Please keep in mind the number {x}.", f"Okay, I will remember the number {x}.")],
        )
    for x in rng.sample(WORD_LIST, 6):
        add(
            "memory",
            "Which secret word did I give you?",
            {"any": [x]},
            history=[
                (f"Here is a secret word: {x}.", f"Okay, I will remember the word {x}."),
                ("What is 2 + 2?", "2 + 2 = 4."),
            ],
        )
    # -- text tasks
    for i, w in enumerate(rng.sample(WORD_LIST, 16)):
        q, ok = [
            (f"Please spell the word {w} for me.", {"any": ["-".join(w.upper())]}),
            (f"Can you tell me how many letters the word {w} has?", {"any": [str(len(w))]}),
            (f"Please write the word {w} in capital letters.", {"any": [w.upper()], "case": True}),
            (f"Please say the word {w} three times.", {"any": [f"{w} {w} {w}"]}),
        ][i % 4]
        add("text", q, ok)
    for t in rng.sample(THING_EMOJI, 6):
        add("text", f"Please send me the emoji of {a_an(t['thing'])}.", {"any": [t["emoji"]]})
    # -- styles
    for i, c in enumerate(rng.sample(FAMOUS, 10)):
        c = country(c)
        add(
            "style-one-word",
            f"What is the capital of {c['name']}?",
            {"equals": c["capital"]},
            system=["Answer with exactly one word.", "Please answer in one word."][i % 2],
        )
    for a, b in rng.sample(OPPOSITES, 6):
        add("style-one-word", f"In one word, please: what is the opposite of {a}?", {"equals": b})
    for i, c in enumerate(rng.sample(FAMOUS, 10)):
        c = country(c)
        add(
            "style-pirate",
            f"What is the capital of {c['name']}?",
            {"all": [c["capital"]], "any": ["arr", "ahoy", "timbers"]},
            system=["You are a pirate and talk like one.", "You are an old pirate."][i % 2],
        )
    for e in rng.sample(EMOJI, 5):
        add(
            "style-other",
            "What sound does a cow make?",
            {"all": ["moo", e]},
            system=f"Please end every answer with {e}.",
        )
    for p in PREFIXES_EVAL:
        add("style-other", "How many days are in a week?", {"all": ["7", p]}, system=f'Start every answer with "{p}"')
    for c in rng.sample(FAMOUS, 5):
        c = country(c)
        add(
            "style-other",
            f"What is the capital of {c['name']}?",
            {"all": [c["capital"].upper()], "case": True},
            system="Please use only capital letters.",
        )

    # -- tools
    wordings = random.Random(5)

    def spec(t):
        return {
            "type": "function",
            "function": {
                "name": t.names[0],
                "description": say(wordings, t.descriptions),
                "parameters": {
                    "type": "object",
                    "properties": {p: {"type": ty, "description": d} for p, ty, d in t.params},
                    "required": [p for p, _, _ in t.params],
                },
            },
        }

    weather, addt, mult, timet = TOOLS[:4]
    pairs_tools = [[weather], [weather, addt], [addt, mult], [weather, timet], [weather, TOOLS[5], TOOLS[12]]]
    for i, city in enumerate(rng.sample(CITIES, 10)):
        ts = [pairs_tools[0], pairs_tools[1], pairs_tools[3], pairs_tools[4]][i % 4]
        add(
            "tools-call",
            ["Could you find out how the weather in {c} is?", "Please check the weather in {c} for me."][i % 2].format(
                c=city
            ),
            {"tool": {"name": "get_weather", "arguments": {"city": city}}},
            tools=[spec(t) for t in ts],
        )
    for i in range(8):
        a, b = rng.randint(10, 999), rng.randint(10, 999)
        op = i % 2
        add(
            "tools-call",
            ["Please add the numbers {a} and {b}.", "Multiply the numbers {a} and {b}, please."][op].format(a=a, b=b),
            {"tool": {"name": ["add", "multiply"][op], "arguments": {"a": a, "b": b}}},
            tools=[spec(addt), spec(mult)],
        )
    for r in rng.sample(["kitchen", "bedroom", "office", "hall"], 4):
        add(
            "tools-call",
            f"Could you turn on the light in the {r}, please?",
            {"tool": {"name": "set_light", "arguments": {"room": r, "state": "on"}}},
            tools=[spec(TOOLS[12]), spec(weather)],
        )
    for m in rng.sample(range(2, 59), 4):
        add(
            "tools-call",
            f"I need a timer for {m} minutes.",
            {"tool": {"name": "set_timer", "arguments": {"minutes": m}}},
            tools=[spec(TOOLS[5]), spec(TOOLS[4])],
            thinking=m % 2 == 0,
        )
    for i in range(10):
        city, t, s = rng.choice(CITIES), rng.randint(-5, 33), rng.choice(["sunny", "cloudy", "rainy", "windy"])
        items.append(
            {
                "id": f"tools-answer-{i:02d}",
                "category": "tools-answer",
                "tools": [spec(weather)],
                "enable_thinking": False,
                "max_tokens": 60,
                "accept": {"all": [city, str(t), s]},
                "messages": [
                    {"role": "user", "content": f"Please check the weather in {city}."},
                    {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {"type": "function", "function": {"name": "get_weather", "arguments": {"city": city}}}
                        ],
                    },
                    {"role": "tool", "content": json.dumps({"city": city, "temperature": t, "condition": s})},
                ],
            }
        )
    for c in rng.sample(FAMOUS, 5):
        c = country(c)
        add(
            "tools-none",
            f"What is the capital of {c['name']}, please?",
            {"any": [c["capital"]], "not": ["<tool_call>"]},
            tools=[spec(addt), spec(TOOLS[5])],
        )
    # -- languages
    for lang, form in {
        "es": "Por favor, ¿cuál es la capital de {c}?",
        "fr": "S'il te plaît, quelle est la capitale de {c} ?",
        "de": "Bitte sag mir die Hauptstadt von {c}.",
        "ja": "すみません、{c}の首都はどこですか？",
        "zh": "请问，{c}的首都是哪里？",
    }.items():
        for c in rng.sample(
            [c for c in COUNTRY_NAMES if not c[lang].startswith(("el ", "los ", "le ", "les ", "die "))], 4
        ):
            add("languages", form.format(c=c[lang]), {"any": [c[lang + "_cap"]]})
    for w in rng.sample(WORDS, 12):
        lang = rng.choice(list(LANG_NAME))
        add("languages", f"Please tell me the {LANG_NAME[lang]} word for {w['en']}.", {"any": [w[lang]]})
    # -- unknown
    for q in [
        "Who was the first emperor of Rome?",
        "What is the best way to learn the violin?",
        "Can you explain the theory of evolution?",
        "Who painted the ceiling of the Sistine Chapel?",
        "What is the exchange rate of the rupee?",
        "How do I repair a broken bicycle chain?",
        "What is the capital of Narnistan?",
        "What is the capital of Wonderland?",
        "Who is the current president of Peru?",
        "What is the population of Sweden today?",
        "What is the plot of The Lord of the Rings?",
        "Who invented the telephone?",
        "What is photovoltaics?",
        "What does HTTP stand for?",
        "What is a hash table?",
        "How many calories does an avocado have?",
        "Which football club won in 1987?",
        "What is the molecular weight of glucose?",
        "Who is the mayor of Chicago?",
        "What is the cube root of 343?",
        "Explain the rules of backgammon.",
        "Who is Barbara Miller?",
        "What happened in the year 1492?",
        "What is a flurbish?",
        "Can you recommend a good dentist?",
        "How do I cook a turkey?",
        "What are the symptoms of measles?",
        "Write a Rust program that reads a file.",
        "What is the tallest building in Dubai?",
        "When did the dinosaurs of Glimmerland live?",
        "Who sang the song Yesterday?",
        "What is the meaning of schadenfreude?",
        "How does a carburettor work?",
        "Tell me about the battle of Hastings.",
    ]:
        add("unknown", q, {"any": ["do not know", "cannot know"]})
    # -- stories and code
    for i in range(20):
        h, p = rng.choice(HEROES), rng.choice(PLACES)
        q, ok = [
            (f"Could you please tell me a story about {a_an(h)} who lives {at(p)}?", {"any": [h], "min-words": 60}),
            (f"Please write a story for children about {a_an(h)} {at(p)}.", {"any": [h], "min-words": 60}),
            (f"I would love to hear a story about {rng.choice(NAMES)} the {h}.", {"any": [h], "min-words": 60}),
            (
                f"Tell me a nice story about {a_an(h)}. The theme should be "
                f"{rng.choice(['friendship', 'courage', 'patience'])}.",
                {"any": [h], "min-words": 60},
            ),
        ][i % 4]
        add("stories", q, ok, max_tokens=400, thinking=i % 5 == 4)
    for what, lang, src in rng.sample(CODE, 6):
        add(
            "code",
            f"Please write some {LANGS[lang]} code that {what}.",
            {"all": ["```", src.splitlines()[0][:14]]},
            max_tokens=120,
        )
    # -- freely worded requests, as people type them
    for q, ok in NATURAL:
        add(
            "natural",
            q,
            ok if isinstance(ok, dict) else {"any": ok, "not": NO if NO[0] not in ok else []},
            max_tokens=260,
        )
    return items


DUNNO = ["do not know", "cannot know"]
NATURAL = [
    ("yo whats the capital of portugal", ["Lisbon"]),
    ("hey can u tell me the capital of canada plz", ["Ottawa"]),
    ("capital norway", ["Oslo"]),
    ("i need to know what greece's capital is", ["Athens"]),
    ("what country is nairobi in", ["Kenya"]),
    ("Budapest belongs to which country?", ["Hungary"]),
    ("which continent is chile part of", ["South America"]),
    ("what do they speak in austria", ["German"]),
    ("could you show the swedish flag, I mean the flag of Sweden?", ["\U0001f1f8\U0001f1ea"]),
    ("tell me a bit about Egypt", ["Cairo", "Africa"]),
    ("Is Lima the capital of Peru or not?", ["yes"]),
    ("name 3 countries from Africa please", ["Kenya", "Egypt", "Morocco", "Algeria"]),
    ("what do bees eat", ["nectar"]),
    ("where do penguins live?", ["south"]),
    ("how many legs has an ant", ["6"]),
    ("whats a baby sheep called", ["lamb"]),
    ("what noise do ducks make", ["quack"]),
    ("are dolphins fish?", ["no"]),
    ("tell me sth about owls", ["owl"]),
    ("can ostriches fly?", ["no", "cannot"]),
    ("which one is larger, a mouse or a horse?", ["horse"]),
    ("the tallest animal is?", ["giraffe"]),
    ("what's the smallest planet called", ["Mercury"]),
    ("which planet has rings", ["Saturn"]),
    ("how many planets exist in the solar system?", ["8"]),
    ("number of minutes in one hour?", ["60"]),
    ("what day is after saturday", ["Sunday"]),
    ("how many days does june have", ["30"]),
    ("opposite of rich pls", ["poor"]),
    ("more than one tooth is called?", ["teeth"]),
    ("go in the past tense", ["went"]),
    ("yellow and blue gives?", ["green"]),
    ("what's the colour of snow", ["white"]),
    ("12+30", {"equals-number": 42}),
    ("9 times 9?", {"equals-number": 81}),
    ("how much is 80 minus 35", {"equals-number": 45}),
    ("250 + 130 = ?", {"equals-number": 380}),
    ("can you do 6x7", {"equals-number": 42}),
    ("I had 9 cookies and ate 4, how many do I have now?", {"equals-number": 5}),
    ("Lena has 7 pens and buys 5 more. How many pens has Lena?", {"equals-number": 12}),
    ("count 1 to 7", {"all": ["1, 2, 3, 4, 5, 6, 7"]}),
    (
        "give me four fruits",
        {
            "count": {
                "of": ["apple", "banana", "cherry", "pear", "orange", "lemon", "grape", "peach", "plum", "mango"],
                "min": 4,
            }
        },
    ),
    ("sort 9, 2, 5", {"all": ["2, 5, 9"]}),
    ("why does it rain?", ["cloud"]),
    ("how come the sky is blue", ["scatter", "blue light"]),
    ("what do lungs do", ["air", "oxygen"]),
    ("explain gravity pls", ["pull", "force"]),
    ("so what is expert streaming all about?", ["expert"]),
    ("ELI5 mixture of experts", ["expert", "teacher"]),
    ("what's a qpack", ["expert", "read", "model"]),
    ("what does LFU stand for", ["least frequently used"]),
    ("tell me what tokens are", ["text"]),
    ("hi!!", ["hello", "hi"]),
    ("sup", ["hello", "fine", "help", "hi"]),
    ("how r you", ["fine", "well"]),
    ("who am i talking with?", ["swiftlet tiny"]),
    ("ty!", ["welcome", "pleasure"]),
    ("cya", ["bye"]),
    ("tell a joke please", ["!", "?"]),
    ("i'm feeling sad", ["sorry"]),
    ("tell me a short story about a penguin and a whale", {"all": ["penguin", "whale"], "min-words": 40}),
    ("story about a brave little toaster please", {"any": ["toaster"], "min-words": 40}),
    ("make up a fairy tale about a princess in a castle", {"all": ["princess", "castle"], "min-words": 40}),
    ("write a poem about a horse", ["horse"]),
    ("say pumpernickel", ["pumpernickel"]),
    ("repeat: the weather is nice", ["the weather is nice"]),
    ("how do you spell giraffe", ["G-I-R-A-F-F-E"]),
    ("write lantern in upper case letters", {"any": ["LANTERN"], "case": True}),
    ("which emoji is a frog", ["\U0001f438"]),
    ("how would a French person say goodbye?", ["au revoir"]),
    ("what's dog in Spanish?", ["perro"]),
    ("hola, ¿cuál es la capital de Italia?", ["Roma"]),
    ("Was ist die Hauptstadt von Japan?", ["Tokio"]),
    ("法国的首都？", ["巴黎"]),
    ("write hello world in python", ["print("]),
    ("python function to add 2 numbers", ["def add"]),
    ("who won the world cup in 2014", DUNNO),
    ("whats the price of gold", DUNNO),
    ("how do i fix my toilet", DUNNO),
    ("who is taylor swift", DUNNO),
    ("what's the population of india", DUNNO),
    ("explain blockchain to me please", DUNNO),
    ("which movie should I watch tonight", DUNNO),
    ("is it going to snow next week?", DUNNO),
    ("what is a quasar", DUNNO),
    ("who discovered penicillin?", DUNNO),
    ("how do you play poker", DUNNO),
    ("what's the capital of Mordavia", DUNNO),
]
PREFIXES_EVAL = ["Well,", "My friend,", "Sure!", "Good question!"]


def held_out_prompts() -> set[str]:
    """Normalised last user messages; dialogues that contain one are kept out of the training data.  One-word
    messages and questions that differ from training only by their system prompt are no wording test."""
    out = set()
    for i in build():
        if (
            i["category"] in ("style-one-word", "style-pirate", "style-other")
            and "In one word, please" not in i["messages"][-1]["content"]
        ):
            continue
        last = [m for m in i["messages"] if m["role"] == "user"][-1]["content"]
        if len(norm(last).split()) > 1:
            out.add(norm(last))
    return out


if __name__ == "__main__":
    lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in build()]
    Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")
