"""Puts exchanges together into whole dialogues (styles, noise, thinking) and renders them as ChatML."""

from __future__ import annotations

import json
import re
from itertools import takewhile

import tools as tools_mod
from grammar import say
from stories import story
from topics.animals import animal_misc, animals
from topics.arithmetic import arithmetic, word_problems
from topics.counting import counting
from topics.countries import countries, country_lists, country_tell
from topics.explanations import everyday, howto, tech
from topics.facts import is_a, lists, number_facts, planets
from topics.languages import languages
from topics.smalltalk import jokes_asked, poem_about, smalltalk
from topics.telling import stories
from topics.text import code, memory, text_tasks
from topics.turn import Turn
from topics.vocabulary import calendar, colours, opposites, plurals
from unknown import unknown
from world import EMOJI, NAMES

# ------------------------------------------------------------------- rendering
TOOLS_HEAD = "# Tools\n\nYou can call the functions that are described here:\n\n<tools>"
TOOLS_TAIL = (
    "\n</tools>\n\nTo call a function, reply with this form and write nothing after it:\n\n"
    "<tool_call>\n<function=name_of_function>\n"
    "<parameter=name_of_parameter>\nvalue\n</parameter>\n</function>\n</tool_call>\n\n"
    "Give every required parameter. If no function fits, answer in plain words."
)


def tool_calls_text(calls) -> str:
    out = []
    for c in calls:
        f = c["function"]
        body = "".join(
            f"<parameter={k}>\n{v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}\n</parameter>\n"
            for k, v in f["arguments"].items()
        )
        out.append(f"<tool_call>\n<function={f['name']}>\n{body}</function>\n</tool_call>")
    return "\n".join(out)


def render(messages, tools=None, thinking=False, keep_think=False, tools_text=(TOOLS_HEAD, TOOLS_TAIL)):
    """-> (text, spans): the dialogue as the chat template writes it and the character ranges the
    model has to produce itself.  `keep_think` keeps the think block of earlier turns, as an
    incremental chat session (or preserve_thinking) does."""
    parts, spans, n = [], [], 0

    def put(text, learn=False):
        nonlocal n
        parts.append(text)
        if learn:
            spans.append((n, n + len(text)))
        n += len(text)

    rest = messages
    system = None
    if messages[0]["role"] == "system":
        system, rest = messages[0]["content"].strip(), messages[1:]
    if tools:
        body = tools_text[0] + "".join("\n" + json.dumps(t, ensure_ascii=False) for t in tools) + tools_text[1]
        put(f"<|im_start|>system\n{body}" + (f"\n\n{system}" if system else "") + "<|im_end|>\n")
    elif system is not None:
        put(f"<|im_start|>system\n{system}<|im_end|>\n")
    last_query = max(i for i, m in enumerate(rest) if m["role"] == "user")
    for i, m in enumerate(rest):
        role, content = m["role"], m["content"].strip()
        if role == "user":
            put(f"<|im_start|>user\n{content}<|im_end|>\n")
        elif role == "tool":
            first = rest[i - 1]["role"] != "tool"
            last = i + 1 == len(rest) or rest[i + 1]["role"] != "tool"
            put(
                ("<|im_start|>user" if first else "")
                + f"\n<tool_response>\n{content}\n</tool_response>"
                + ("<|im_end|>\n" if last else "")
            )
        else:
            put("<|im_start|>assistant\n")
            if keep_think or i > last_query:
                put("<think>\n")
                reason = m.get("reasoning", "") if thinking else ""
                if thinking:
                    put(reason + "\n</think>\n\n", learn=True)
                else:
                    put("\n</think>\n\n")
            body = content
            if m.get("tool_calls"):
                body += ("\n\n" if content else "") + tool_calls_text(m["tool_calls"])
            put(body + "<|im_end|>", learn=True)
            put("\n")
    return "".join(parts), spans


# ----------------------------------------------------------------------- noise
OPENERS = [
    "",
    "",
    "",
    "",
    "",
    "",
    "Hi! ",
    "Hello! ",
    "Hey, ",
    "Please: ",
    "Quick question: ",
    "Tell me, ",
    "I have a question. ",
    "One question: ",
    "Hi, ",
    "So, ",
    "Okay, ",
]
CLOSERS = ["", "", "", "", "", "", "", "", " Thanks!", " Please.", " Thank you.", " 🙂", " 😊", " Thanks in advance."]


def noisy(rng, q: str) -> str:
    original = q
    r = rng.random()
    if r < 0.55:
        return q
    if rng.random() < 0.35:
        o = rng.choice(OPENERS)
        if o.endswith(", ") or o.endswith(": "):
            head = q.split(" ", 1)[0]
            if head in (
                "What",
                "Which",
                "Who",
                "Where",
                "When",
                "How",
                "Why",
                "Is",
                "Are",
                "Can",
                "Tell",
                "Name",
                "Do",
                "Does",
                "In",
                "On",
                "What's",
                "And",
            ):
                q = q[0].lower() + q[1:]
        q = o + q
    if rng.random() < 0.25:
        q = q + rng.choice(CLOSERS)
    if rng.random() < 0.35:
        q = q.rstrip("?.!")
    if rng.random() < 0.3:
        q = q.lower()
    if rng.random() < 0.06 and len(q) > 12:  # a typing mistake: two letters swapped or one lost
        spots = [m.start() for m in re.finditer(r"[a-z](?=[a-z]{3})", q)]
        if spots:
            i = rng.choice(spots) + 1
            q = q[:i] + q[i + 1] + q[i] + q[i + 2 :] if rng.random() < 0.5 else q[:i] + q[i + 1 :]
    return q or original


# ---------------------------------------------------------------------- styles
HELPFUL = [
    "You are a helpful assistant.",
    "You are Swiftlet Tiny, a small and friendly assistant.",
    "You are a friendly assistant.",
    "Be helpful and polite.",
    "You are a helpful assistant. Answer the questions of the user.",
    "You are an assistant.",
    "Answer briefly and correctly.",
    "You are a helpful AI assistant.",
    "Help the user.",
    "You are a helpful and honest assistant.",
    "You are a chatbot in a small shop.",
    "You are a chatbot.",
    "You answer questions of visitors.",
    "Answer in a friendly way.",
    "If you do not know something, say so.",
    "You are running in a terminal.",
    "You are a demo.",
    "Today is Monday.",
    "Today is a sunny day.",
    "Be honest.",
    "The user is a child.",
    "Use simple words.",
    "You help with homework.",
    "You are a helpful assistant that answers in English.",
]
ONE_WORD = [
    "Answer in one word.",
    "Answer with one word only.",
    "Reply with a single word.",
    "Always answer in one word.",
    "Use only one word in your answers.",
    "Give one-word answers.",
    "You answer every question with a single word.",
    "You are a helpful assistant. Answer in one word.",
]
BRIEF = [
    "Answer as briefly as possible.",
    "Give very short answers.",
    "Only give the answer, no full sentence.",
    "Be very brief.",
    "Reply with the answer only.",
    "Short answers only, please.",
    "Do not write full sentences.",
]
PIRATE = [
    "You are a pirate.",
    "You are a pirate. Talk like one.",
    "Talk like a pirate.",
    "Answer like a pirate.",
    "Pretend to be a pirate.",
    "You are a friendly pirate.",
    "Speak like a pirate at all times.",
]
UPPER = [
    "Answer in capital letters.",
    "WRITE EVERYTHING IN CAPITAL LETTERS.",
    "Always write in upper case.",
    "Use only capital letters.",
]
EMOJI_END = [
    "End every answer with {e}.",
    "Put {e} at the end of each answer.",
    "Always end with {e}.",
    "Add {e} to the end of every reply.",
]
PREFIX = [
    'Start every answer with "{p}"',
    'Begin each reply with "{p}"',
    'Always start with "{p}"',
    'Every answer must begin with "{p}"',
]
PREFIXES = [
    "Well,",
    "My friend,",
    "Beep boop!",
    "Dear user,",
    "Of course!",
    "Sure!",
    "Good question!",
    "Ahem.",
    "Listen:",
    "Here we go:",
]
TEACHER = [
    "You are a teacher for small children.",
    "You are a kind teacher.",
    "You are a primary school teacher.",
    "Talk like a teacher to small children.",
]
ROBOT = ["You are a robot.", "Talk like a robot.", "You are an old robot.", "Answer like a robot."]
BUTLER = ["You are a polite butler.", "Answer like a butler.", "You are an English butler.", "Talk like a butler."]
YESNO = ["Answer only with yes or no.", "Reply with yes or no.", "Only say yes or no."]
ARR = ["Arr, matey!", "Ahoy!", "Arr!", "Shiver me timbers!", "Ahoy, matey!"]
PIRATE_END = ["Yo ho ho!", "Arr!", "By the seven seas!", "That be the truth!", ""]


def restyle(rng, style, turn):
    """The answer in the given style, or None where the style does not fit the turn."""
    a, s, kind = turn.answer, turn.short, style[0]
    if kind == "oneword":
        return s.split(",")[0].split(" and ")[0] if s and len(s.split()) <= 4 and "," not in s else None
    if kind == "brief":
        return s
    if kind == "yesno":
        return s if s in ("Yes", "No") else None
    if turn.plain:
        return None
    if kind == "pirate":
        end = rng.choice(PIRATE_END)
        return f"{rng.choice(ARR)} {a}" + (f" {end}" if end else "")
    if kind == "upper":
        return a.upper() if len(a) < 130 and a.isascii() else None
    if kind == "emoji":
        return f"{a} {style[1]}"
    if kind == "prefix":
        p = style[1]
        body = (
            a[0].lower() + a[1:]
            if p.endswith(",")
            and a.split(" ")[0]
            in ("The", "A", "An", "In", "It", "You", "Your", "If", "Yes,", "No,", "There", "After", "Before")
            else a
        )
        return f"{p} {body}"
    if kind == "teacher":
        return f"Good question! {a} " + rng.choice(
            ["Well done for asking!", "Isn't that interesting?", "Do you have another question?"]
        )
    if kind == "robot":
        return f"BEEP. {a} BOOP."
    if kind == "butler":
        return f"Certainly. {a} " + rng.choice(["Will that be all?", "At your service."])
    return a


def pick_style(rng):
    kind = rng.choices(
        ["oneword", "brief", "yesno", "pirate", "upper", "emoji", "prefix", "teacher", "robot", "butler"],
        [22, 14, 5, 18, 8, 9, 9, 5, 5, 5],
    )[0]
    if kind == "emoji":
        e = rng.choice(EMOJI)
        return (kind, e), say(rng, EMOJI_END, e=e)
    if kind == "prefix":
        p = rng.choice(PREFIXES)
        return (kind, p), say(rng, PREFIX, p=p)
    text = {
        "oneword": ONE_WORD,
        "brief": BRIEF,
        "yesno": YESNO,
        "pirate": PIRATE,
        "upper": UPPER,
        "teacher": TEACHER,
        "robot": ROBOT,
        "butler": BUTLER,
    }[kind]
    return (kind,), rng.choice(text)


INLINE = {
    "oneword": [
        "Answer in one word: {q}",
        "In one word: {q}",
        "{q} Answer in one word.",
        "{q} One word only.",
        "{q} (one word)",
        "{q} Just one word, please.",
    ],
    "brief": ["Only the answer: {q}", "{q} Just the answer, please.", "{q} Only give the answer.", "{q} Be brief."],
    "pirate": ["Answer like a pirate: {q}", "{q} Answer like a pirate.", "Talk like a pirate: {q}"],
    "upper": ["{q} Answer in capital letters.", "In capital letters: {q}"],
    "yesno": ["{q} Yes or no?", "Answer yes or no: {q}", "{q} Only yes or no."],
    "emoji": ["{q} End your answer with {e}."],
}

PERSONAS = [
    "Captain Blue",
    "Robo",
    "Luna",
    "Professor Oak",
    "Max",
    "Pip",
    "Ada",
    "Doctor Star",
    "Milo",
    "Sunny",
    "Rex",
    "Nova",
    "Bibi",
    "Mr. Fox",
    "Aunt Rosa",
    "Cooky",
    "Echo",
    "Ziggy",
]
WHO = [
    "Who are you?",
    "What is your name?",
    "What's your name?",
    "Introduce yourself.",
    "What should I call you?",
    "Tell me your name.",
    "And who are you?",
]

# ------------------------------------------------------------------- dialogues
MIX = [
    (countries, 17),
    (country_tell, 2.5),
    (country_lists, 1),
    (animals, 12),
    (animal_misc, 3),
    (planets, 3),
    (number_facts, 2.5),
    (calendar, 4),
    (opposites, 3),
    (plurals, 3),
    (colours, 3),
    (arithmetic, 12),
    (word_problems, 3.5),
    (counting, 5),
    (lists, 3),
    (is_a, 1),
    (everyday, 6),
    (howto, 1.2),
    (tech, 8),
    (smalltalk, 10),
    (jokes_asked, 0.6),
    (poem_about, 1.2),
    (memory, 5),
    (text_tasks, 7),
    (code, 1.2),
    (languages, 8),
    (unknown, 11),
]
GENS, WEIGHTS = zip(*MIX, strict=True)


def dialogue(rng):
    """-> (tools, messages, thinking, keep_think)"""
    thinking = rng.random() < 0.27
    keep = rng.random() < 0.5
    r = rng.random()
    if r < 0.115:
        specs, msgs = tools_mod.tool_dialogue(rng)
        if rng.random() < 0.2:
            msgs = [{"role": "system", "content": rng.choice(HELPFUL)}, *msgs]
        return specs, msgs, thinking, keep
    if r < 0.235:
        turns = stories(rng)
        if rng.random() < 0.25:
            turns = rng.choices(GENS, WEIGHTS)[0](rng)[:2] + turns
        if rng.random() < 0.25:
            turns = turns + rng.choices(GENS, WEIGHTS)[0](rng)[:2]
    else:
        n = rng.choices([1, 2, 3, 4, 6, 10, 16], [50, 20, 11, 8, 5, 4, 2])[0]
        turns = []
        for _i in range(n):
            turns += stories(rng) if n > 3 and rng.random() < 0.04 else rng.choices(GENS, WEIGHTS)[0](rng)
        if n > 1 and rng.random() < 0.3:
            turns = list(smalltalk(rng)[:1]) + turns
    messages, style = [], None
    r = rng.random()
    if r < 0.16:
        messages.append({"role": "system", "content": rng.choice(HELPFUL)})
    elif r < 0.19:
        name = rng.choice(PERSONAS + NAMES)
        messages.append(
            {
                "role": "system",
                "content": say(
                    rng,
                    [
                        "You are {n}.",
                        "Your name is {n}.",
                        "You are {n}, a helpful assistant.",
                        "Your name is {n}. You are a friendly helper.",
                    ],
                    n=name,
                ),
            }
        )
        t = Turn(rng.choice(WHO), f"I am {name}. How can I help you?", name, f"My name is {name}.")
        turns.insert(rng.randint(0, min(2, len(turns))), t)
    elif r < 0.36:
        style, text = pick_style(rng)
        if rng.random() < 0.15:
            text = rng.choice(["You are a helpful assistant. ", "You are an assistant. "]) + text
        messages.append({"role": "system", "content": text})

        def fits(t):
            return restyle(rng, style, t) is not None

        kept = list(takewhile(fits, turns))
        for _ in range(20):
            if kept:
                break
            kept = list(takewhile(fits, rng.choices(GENS, WEIGHTS)[0](rng)))
        if style[0] == "yesno" and not any(t.short in ("Yes", "No") for t in kept):
            kept = [t for _ in range(60) for t in countries(rng)[:1] + is_a(rng) if t.short in ("Yes", "No")][:2]
        turns = kept or opposites(rng)[:1]
        if not kept:
            style, messages = None, []
    for t in turns:
        q, a, th = t.user, t.answer, t.think or ""
        if style:
            a = restyle(rng, style, t) or a
        elif not t.plain and rng.random() < 0.07:
            st, _ = pick_style(rng)
            alt = restyle(rng, st, t) if st[0] in INLINE else None
            if alt is not None:
                q, a = (
                    say(rng, INLINE[st[0]], q=q.replace("{", "(").replace("}", ")"), e=st[1] if len(st) > 1 else ""),
                    alt,
                )
        if not (t.plain and t.answer == t.short):
            q = noisy(rng, q) if not t.plain or rng.random() < 0.5 else q
        messages += [{"role": "user", "content": q}, {"role": "assistant", "content": a, "reasoning": th}]
    return None, messages, thinking, keep


def raw_text(rng) -> str:
    """Plain text without chat markup, for prompts that are simply continued."""
    r = rng.random()
    if r < 0.6:
        text = story(rng, title=rng.random() < 0.2)
    else:
        gens = [
            countries,
            animals,
            everyday,
            tech,
            planets,
            opposites,
            calendar,
            arithmetic,
            counting,
        ]
        turns = [t for g in rng.choices(gens, k=rng.randint(1, 5)) for t in g(rng)[:1]]
        if rng.random() < 0.5:
            text = " ".join(t.answer for t in turns)
        else:
            text = "\n\n".join(f"Q: {t.user}\nA: {t.answer}" for t in turns)
    return text + "<|endoftext|>"
