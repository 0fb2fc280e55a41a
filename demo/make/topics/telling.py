"""Requests for stories, and the stories."""

from __future__ import annotations

from grammar import a_an, cap, say
from stories import HERO_ADJ, HEROES, PLACES, THEMES, at, story
from topics.turn import Turn
from words import NOUNS
from world import ANIMALS, NAMES

Q_STORY = [
    "Tell me a story about {x}[.|, please.|]",
    "Write a [short |]story about {x}.",
    "Can you [tell|write] [me |]a [short |]story about {x}?",
    "[I want|I would like] [to hear |]a [short |]story about {x}.",
    "Write a children's story about {x}.",
    "Tell my [son|daughter|children] a story about {x}.",
    "Make up a story about {x}.",
    "Please write a [little |short |]story about {x}.",
    "A story about {x}, please.",
    "story about {x}",
    "Invent a story about {x}.",
    "Tell a bedtime story about {x}.",
]


Q_STORY_ANY = [
    "Tell me a [short |]story[.|, please.|]",
    "Write a [short |]story.",
    "[Can|Could] you tell me a story?",
    "Tell me a bedtime story.",
    "I want to hear a story.",
    "Make up a story.",
    "Do you know a story?",
    "a story please",
    "Tell me a children's story.",
]


FRIENDS = (
    "mouse owl hedgehog frog snail robin rabbit bee turtle squirrel duck fox bear kitten mole sparrow goat crow deer"
).split()


def any_hero(rng):
    h = (
        rng.choice(HEROES)
        if rng.random() < 0.8
        else rng.choice(NOUNS + [a["name"] for a in ANIMALS] + ["number", "letter", "computer", "token", "cache"])
    )
    if rng.random() < 0.3:
        h = rng.choice(HERO_ADJ) + " " + h
    return h


def stories(rng):
    hero = place = theme = name = friend = None
    short = rng.random() < 0.12
    x = []
    r = rng.random()
    if r < 0.1:
        q = say(rng, Q_STORY_ANY)
    else:
        if r < 0.85:
            hero = any_hero(rng)
            if rng.random() < 0.25:
                name = rng.choice(NAMES)
                x.append(
                    rng.choice([f"{a_an(hero)} named {name}", f"{a_an(hero)} called {name}", f"{name} the {hero}"])
                )
            elif rng.random() < 0.2:
                friend = rng.choice([f for f in FRIENDS if f not in hero])
                x.append(f"{a_an(hero)} and {a_an(friend)}")
            else:
                x.append(a_an(hero))
        elif r < 0.93:
            name = rng.choice(NAMES)
            hero = rng.choice(["girl", "boy"])
            x.append(rng.choice([f"a {hero} named {name}", f"a {hero} called {name}"]))
        if rng.random() < 0.5 or not x:
            place = rng.choice(PLACES)
            x.append(at(place) if x else rng.choice([place, f"someone who lives {at(place)}"]))
        q = say(rng, Q_STORY, x=" ".join(x))
        if rng.random() < 0.3:
            theme = rng.choice(THEMES)
            q = q.rstrip(".?, ").removesuffix(", please") + say(
                rng,
                [
                    ". The theme is {t}.",
                    ". It should be about {t}.",
                    " with the theme {t}.",
                    ". Theme: {t}.",
                    ". It should teach {t}.",
                ],
                t=theme,
            )
        elif rng.random() < 0.08:
            theme = rng.choice(THEMES)
            q = say(
                rng,
                ["Tell me a story about {t}.", "Write a short story about {t}.", "I want a story about {t}."],
                t=theme,
            )
            hero = place = name = friend = None
    if short:
        q = q.rstrip(".?") + say(
            rng, [". Keep it short.", " in a few sentences.", ". Make it very short.", ". Not too long, please."]
        )
    title = rng.random() < 0.1
    if title:
        q = q.rstrip(".?") + say(rng, [". Give it a title.", ". Add a title.", " with a title."])
    text = story(rng, hero, place, theme, name, friend, short, title)
    plan = (
        "The user wants a story"
        + (f" about {' '.join(x)}" if (x and theme is None) or (x and hero) else "")
        + (f" with the theme {theme}" if theme else "")
        + ". "
        + say(
            rng,
            [
                "I need a beginning, a problem and a good end.",
                "I will start with the hero, then something happens, and it ends well.",
                "It should be simple and end happily.",
            ],
        )
    )
    turns = [Turn(q, text, None, plan, plain=True)]
    if rng.random() < 0.12:
        turns.append(
            Turn(
                say(
                    rng,
                    ["Another one, please.", "Tell me another story.", "One more story!", "Again, with another hero."],
                ),
                story(rng),
                None,
                "The user wants another story. I will invent a new one.",
                plain=True,
            )
        )
    elif hero and rng.random() < 0.15:
        turns.append(
            Turn(
                say(rng, ["Who was the hero of the story?", "Who was the story about?"]),
                f"The story was about {a_an(hero)}{' called ' + name if name else ''}.",
                cap(name or a_an(hero)),
                f"The hero was {a_an(hero)}.",
            )
        )
    return turns
