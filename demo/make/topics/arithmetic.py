"""Sums with their steps, and word problems."""

from __future__ import annotations

from grammar import say
from topics.counting import in_words
from topics.turn import Turn, held_out
from world import FRUIT, NAMES


def _places(n):
    return [d * 10**k for k, d in reversed(list(enumerate(map(int, reversed(str(n)))))) if d or n == 0]


def _sum_steps(a, b):
    """Worked addition by hundreds, tens and ones, as plain text."""
    if a >= 100 or b >= 100:
        parts = [(a // 100 * 100, b // 100 * 100), (a // 10 % 10 * 10, b // 10 % 10 * 10), (a % 10, b % 10)]
        sums = [x + y for x, y in parts]
        return (
            ", ".join(f"{x} + {y} = {x + y}" for x, y in parts)
            + f". {sums[0]} + {sums[1]} = {sums[0] + sums[1]}. {sums[0] + sums[1]} + {sums[2]} = {a + b}."
        )
    if a >= 10 and b >= 10:
        t, o = a // 10 * 10 + b // 10 * 10, a % 10 + b % 10
        tens, ones = f"{a // 10 * 10} + {b // 10 * 10} = {t}", f"{a % 10} + {b % 10} = {o}"
        return f"The tens: {tens}. The ones: {ones}. Together: {t} + {o} = {a + b}."
    return f"{a} + {b} = {a + b}."


def _diff_steps(a, b):
    if b >= 10 and a >= b:
        steps, x = [], a
        for part in _places(b):
            steps.append(f"{x} - {part} = {x - part}")
            x -= part
        return "I subtract part by part: " + ", ".join(steps) + "."
    return f"{a} - {b} = {a - b}."


def _times_digit(a, d):
    """a × d for one digit d, split into tens and ones."""
    t, o = a // 10 * 10, a % 10
    if a <= 12 or o == 0 or t == 0 or d <= 1:
        return f"{a} × {d} = {a * d}"
    return f"{a} × {d} = {t} × {d} + {o} × {d} = {t * d} + {o * d} = {a * d}"


def _prod_steps(a, b):
    if a > 12 and b > 12:
        t, o = b // 10, b % 10
        tens = f"{_times_digit(a, t)}, so {a} × {t * 10} = {a * t * 10}."
        if o == 0:
            return tens
        return f"{b} = {t * 10} + {o}. {tens} {_times_digit(a, o)}. {a * t * 10} + {a * o} = {a * b}."
    if a > 12 or b > 12:
        big, small = max(a, b), min(a, b)
        if small > 9:
            return (
                f"{big} × 10 = {big * 10}."
                if small == 10
                else f"{small} = 10 + {small - 10}. {big} × 10 = {big * 10}. {_times_digit(big, small - 10)}. "
                f"{big * 10} + {big * (small - 10)} = {a * b}."
            )
        return _times_digit(big, small) + "."
    return f"{a} × {b} = {a * b}."


OPS = {
    "+": ["+", "plus", "and"],
    "-": ["-", "minus"],
    "×": ["×", "x", "*", "times", "multiplied by"],
    "/": ["/", "divided by", "÷"],
}


def arithmetic_pair(rng, op):
    if op == "+":
        r = rng.random()
        hi = 12 if r < 0.2 else 99 if r < 0.75 else 999
        a, b = rng.randint(0, hi), rng.randint(0, hi if rng.random() < 0.7 else min(hi, 99))
    elif op == "-":
        hi = 99 if rng.random() < 0.75 else 999
        a, b = rng.randint(0, hi), rng.randint(0, hi)
        if rng.random() < 0.9 and a < b:
            a, b = b, a
    elif op == "×":
        hi = rng.choices([12, 20, 99], [65, 15, 20])[0]
        a, b = rng.randint(0, 12), rng.randint(0, hi)
        if hi == 99 and rng.random() < 0.6:
            a = rng.randint(11, 99)
        if rng.random() < 0.5:
            a, b = b, a
    else:
        b = rng.randint(1, 12)
        a = b * rng.randint(0, 12)
    return a, b


def arithmetic_answer(op, a, b):
    if op == "+":
        r, steps = a + b, _sum_steps(a, b)
    elif op == "-":
        r, steps = (
            a - b,
            _diff_steps(a, b)
            if a >= b
            else f"{b} is larger than {a}, so the result is negative. {b} - {a} = {b - a}, so {a} - {b} = {a - b}.",
        )
    elif op == "×":
        r, steps = a * b, _prod_steps(a, b)
    else:
        r, steps = a // b, f"{b} × {a // b} = {a}, so {a} / {b} = {a // b}."
    full = f"{a} {op} {b} = {r}"
    if (op == "×" and max(a, b) > 20 and min(a, b) > 1) or (
        op in "+-" and max(a, b) > 99 and a >= 0 <= b and (op == "+" or a >= b > 9)
    ):  # too hard in one go: show the way
        full = (steps[0].upper() + steps[1:]) + f" So {full}"
    return full + ".", str(r), steps


def arithmetic(rng):
    turns = []
    for i in range(rng.choices([1, 2, 3], [65, 25, 10])[0]):
        while True:
            op = rng.choices(["+", "-", "×", "/"], [40, 28, 26, 6])[0]
            a, b = arithmetic_pair(rng, op)
            if not held_out(op, a, b):
                break
        full, short, steps = arithmetic_answer(op, a, b)
        sym = rng.choice(OPS[op])
        sp = "" if sym in "+-×x*/÷" and rng.random() < 0.25 else " "
        e = f"{a}{sp}{sym}{sp}{b}"
        q = say(
            rng,
            [
                "[What is|What's] {e}?",
                "{e}",
                "{e}?",
                "{e} =",
                "{e} = ?",
                "Calculate {e}[.|]",
                "How much is {e}?",
                "Compute {e}.",
                "[Can you|Please] calculate {e}[?|.]",
                "Tell me the result of {e}.",
                "What does {e} make?",
                "What is the result of {e}?",
                "Solve {e}.",
            ],
            e=e,
        )
        if i and rng.random() < 0.5:
            q = say(rng, ["And {e}?", "And what is {e}?", "What about {e}?", "Now {e}."], e=e)
        if rng.random() < 0.08 and op in "+×":
            q = say(
                rng,
                ["What is the sum of {a} and {b}?", "Add {a} and {b}."]
                if op == "+"
                else ["What is the product of {a} and {b}?", "Multiply {a} by {b}."],
                a=a,
                b=b,
            )
        elif rng.random() < 0.06 and op in "-/":
            q = say(
                rng,
                ["What is the difference of {a} and {b}?", "Subtract {b} from {a}.", "Take {b} away from {a}."]
                if op == "-"
                else ["Divide {a} by {b}."],
                a=a,
                b=b,
            )
        turns.append(
            Turn(
                q,
                full,
                short,
                say(
                    rng,
                    ["I have to calculate {e}. {s}", "{s}", "Let me compute {e} step by step. {s}"],
                    e=f"{a} {op} {b}",
                    s=steps,
                ),
            )
        )
    return turns


def word_problems(rng):
    while True:
        a, b = rng.randint(2, 30), rng.randint(1, 20)
        if rng.random() < 0.5:
            op = "+"
        else:
            op = "-"
            a, b = max(a, b) + 1, min(a, b)
        if not held_out("word", op, a, b):
            break
    n, m = rng.sample(NAMES, 2)
    f = rng.choice(
        [
            *FRUIT,
            "dollars",
            "euros",
            "points",
            "candles",
            "tickets",
            "fish",
            "birds",
            "cars",
            "toys",
            "letters",
            "bananas",
            "buttons",
            "bottles",
            "boxes",
            "bricks",
            "photos",
        ]
    )
    r = a + b if op == "+" else a - b
    if rng.random() < 0.15:
        a, b = rng.randint(2, 9), rng.randint(2, 9)
        r = a * b
        box = rng.choice(["boxes", "bags", "baskets", "rows"])
        q = say(
            rng,
            [
                "There are {a} {x} with {b} {f} in each. How many {f} are there?",
                "{n} has {a} {x}. In each are {b} {f}. How many {f} does {n} have?",
            ],
            a=a,
            b=b,
            x=box,
            f=f,
            n=n,
        )
        full = f"There are {r} {f} in total: {a} × {b} = {r}."
        return [Turn(q, full, str(r), f"{a} {box} with {b} {f} each. {a} × {b} = {r}.")]
    g = f
    A, B = (in_words(a), in_words(b)) if rng.random() < 0.15 else (a, b)
    first = rng.random() < 0.3
    if op == "+":
        q = say(
            rng,
            [
                "{n} has {a} {f}. {m} gives {n} {b} more. How many {f} does {n} have now?",
                "{n} has {a} {f} and {m} has {b} {f}. How many {f} do they have together?",
                "{n} finds {a} {f} in the morning and {b} in the evening. How many {f} is that?",
                "There are {a} {f} on the table. {n} puts {b} more {f} there. How many are there now?",
                "{n} buys {a} {f} on Monday and {b} {f} on Friday. How many {f} did {n} buy?",
                "In one box are {a} {f}, in another one {b}. How many {f} are there in total?",
                "{n} had {a} {f} and got {b} more. How many are there?",
                "{a} {f} plus {b} {f}, how many {f} is that?",
                "{n} sees {a} {f} and then another {b}. How many did {n} see?",
            ]
            if not first
            else [
                "I have {a} {f} and get {b} more. How many {f} do I have[ now|]?",
                "I had {a} {f}. My friend gave me {b} more. How many do I have?",
                "I bought {a} {f} yesterday and {b} today. How many {f} do I have?",
                "If I have {a} {f} and find {b} more, how many do I have?",
                "If I have {a} {f} and you give me {b}, how many {f} do I have?",
            ],
            n=n,
            m=m,
            a=A,
            b=B,
            f=f,
        )
        full = f"{a} + {b} = {r}, so the answer is {r} {g}."
    else:
        q = say(
            rng,
            [
                "{n} has {a} {f} and gives {b} to {m}. How many {f} does {n} have left?",
                "{n} had {a} {f} and lost {b}. How many are left?",
                "There are {a} {f} in a box. {n} takes out {b}. How many {f} are left in the box?",
                "{n} has {a} {f}. {m} takes {b} of them. How many does {n} still have?",
                "There were {a} {f}. {b} are gone now. How many remain?",
                "{n} had {a} {f}. Then {n} sold {b} of them. How many {f} remain?",
                "From {a} {f}, {b} are broken. How many {f} are still good?",
                "{n} takes {b} {f} away from {a} {f}. How many are left?",
                "Of {a} {f}, {n} uses {b}. How many are left over?",
            ]
            if not first
            else [
                "I have {a} {f} and give away {b}. How many do I have left?",
                "I had {a} {f} and lost {b}. How many do I still have?",
                "I have {a} {f} and eat {b}. How many are left?",
                "If I have {a} {f} and use {b}, how many are left?",
                "If I have {a} {f} and spend {b}, how many {f} do I have left?",
            ],
            n=n,
            m=m,
            a=A,
            b=B,
            f=f,
        )
        full = f"{a} - {b} = {r}, so the answer is {r} {g}."
    steps = _sum_steps(a, b) if op == "+" else _diff_steps(a, b)
    return [Turn(q, full, str(r), f"This is a {'sum' if op == '+' else 'subtraction'}. {steps}")]
