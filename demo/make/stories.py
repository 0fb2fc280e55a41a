"""A grammar for short children's stories: a hero, a place, a theme, a problem and a good end."""

from __future__ import annotations

import random

from grammar import a_an, cap, say
from world import NAMES

HEROES = (
    """fox rabbit bear mouse hedgehog squirrel owl duck frog turtle cat dog puppy kitten lion elephant monkey
penguin dragon robot unicorn giraffe goat horse pony sheep lamb pig cow goose swan robin sparrow swiftlet fieldfare
crow parrot eagle whale dolphin seal octopus crab snail bee ant butterfly ladybird spider hippo zebra koala kangaroo
panda tiger wolf deer beaver bat camel mole badger otter donkey prince princess king queen knight wizard witch fairy
pirate sailor farmer baker girl boy gardener teacher astronaut clown painter giant dwarf ghost snowman scarecrow
cloud star teapot train boat kite lantern toy bear tin soldier dinosaur mermaid elf troll""".replace(
        "toy bear", "toy-bear"
    )
    .replace("tin soldier", "tin-soldier")
    .split()
)
HEROES = [h.replace("-", " ") for h in HEROES]
HERO_ADJ = (
    "little brave small clever shy kind curious old young lazy merry tiny gentle quiet lonely grumpy "
    "funny proud hungry cheerful"
).split()
PLACES = [
    "a forest",
    "a big city",
    "a small village",
    "a castle",
    "a garden",
    "a meadow",
    "the mountains",
    "a farm",
    "a cave",
    "the desert",
    "an island",
    "the sea",
    "a lake",
    "a school",
    "the moon",
    "a lighthouse",
    "a snowy valley",
    "a jungle",
    "a river",
    "a library",
    "a bakery",
    "a circus",
    "a windmill",
    "an old tree",
    "a harbour",
    "a market",
    "a museum",
    "a swamp",
    "the North Pole",
    "a train station",
    "a toy shop",
    "the sky",
    "a hidden kingdom",
    "a quiet beach",
    "a spaceship",
    "a green hill",
    "a secret garden",
    "an orchard",
]
THEMES = [
    "friendship",
    "courage",
    "sharing",
    "honesty",
    "curiosity",
    "patience",
    "kindness",
    "helping others",
    "teamwork",
    "never giving up",
]


def at(place: str) -> str:
    """Preposition for a place."""
    if place.startswith(("the sea", "the moon", "an island", "a green hill", "a farm", "a quiet beach", "a spaceship")):
        return "on " + place
    if place.startswith(
        (
            "the North Pole",
            "a lake",
            "a river",
            "a harbour",
            "a lighthouse",
            "a train station",
            "a windmill",
            "a circus",
            "a market",
        )
    ):
        return "at " + place
    return "in " + place


def again(place: str) -> str:
    """'a forest' -> 'the forest'."""
    for art in ("a ", "an "):
        if place.startswith(art):
            return "the " + place[len(art) :]
    return place


OPEN = [
    "Once upon a time there was {a_hero} [who lived|that lived] {at}.",
    "Once upon a time, {at}, there lived {a_hero}.",
    "[Long ago|A long time ago], {a_hero} lived {at}.",
    "{At} there was once {a_hero}.",
    "There once was {a_hero} who lived {at}.",
]
OPEN_NAMED = [
    "Once upon a time there was {a_hero} named {n}, who lived {at}.",
    "[Long ago|A long time ago], {a_hero} called {n} lived {at}.",
    "{At} there lived {a_hero} named {n}.",
    "{n} was {a_hero}. {n} lived {at}.",
]
MOOD = [
    "Every morning {n} [looked at the sky and smiled|sang a little song|went for a walk|greeted everyone].",
    "{n} loved [to play|to explore|to laugh|to listen to old stories|sweet berries|the smell of rain].",
    (
        "{n} was [happy there|never bored|always busy], but [something was missing|one thing made {n} "
        "sad|one day everything changed]."
    ),
    "",
]
FRIENDS = (
    "mouse owl hedgehog frog snail robin rabbit bee turtle squirrel duck fox bear kitten mole "
    "sparrow ladybird goat crow deer"
).split()

PLOTS = {
    "friendship": [
        [
            (
                "{n} had no [friends|one to play with] and felt [lonely|very alone]. One day {n} heard [somebody "
                "crying|a small voice] behind [a bush|a stone|a wall]. It was {a_friend}."
            ),
            (
                '"Why are you [sad|crying]?" asked {n}. "[I am new here and know nobody|I have lost my way|'
                'Nobody wants to play with me]," said the {friend}.'
            ),
            (
                '{n} [sat down next to the {friend}|smiled] and said, "[Then we can be friends|Let us play '
                'together|You can stay with me]." [They played until the sun went down.|They shared some bread '
                "and told each other stories.|They ran and laughed all afternoon.]"
            ),
            (
                "From that day on {n} and the {friend} were [best friends|never alone again|always together]. [A "
                "friend makes every day brighter.|And they understood that a good friend is worth more than "
                "gold.]"
            ),
        ],
        [
            (
                "One [stormy|rainy|windy] night there was a knock at the door. Outside stood {a_friend}, [wet "
                "and cold|shaking and tired]."
            ),
            (
                '"May I come in?" asked the {friend}. {n} [opened the door wide|did not think long] and made [a '
                "warm soup|some hot tea|a soft bed]."
            ),
            (
                'In the morning the sun came out. "[Thank you|You saved me]," said the {friend}. "[How can I '
                'thank you?|What can I do for you?]" {n} laughed. "[Just be my friend|Stay and play with me]."'
            ),
            (
                "So they [became friends|stayed together], and [whenever it rained|on every stormy night] they "
                "remembered how they had met."
            ),
        ],
    ],
    "courage": [
        [
            (
                "[Everyone|All the others] knew that {n} was afraid of [the dark|deep water|thunder|high places|"
                'strangers]. One day {a_friend} came running. "Help! [My little brother has fallen into a hole|'
                'The bridge is broken and my family is on the other side|My sister is lost in the dark]!"'
            ),
            (
                "{n}'s knees were shaking. But {n} took a deep breath and said, \"[I am afraid, but I will help|"
                'I will try]."'
            ),
            (
                "Step by step {n} went [into the dark|on], [held on to a long rope|followed a small light|sang a "
                "song to feel brave], and [at last reached the little one|found the little one at last]. "
                "Together they came back [safe and sound|to the others]."
            ),
            (
                '"You are so brave!" [everyone cheered|said the {friend}]. {n} [smiled|blushed]. "[Being brave '
                'means being afraid and doing it anyway|I was afraid the whole time]." [And that night {n} slept '
                "very well.|And from then on {n} was not so afraid any more.]"
            ),
        ],
        [
            (
                "One day a [huge shadow|strange noise] frightened everyone {at}. Nobody dared to [look|go near "
                'it]. "[It must be a monster|It wants to eat us]!" cried the {friend}.'
            ),
            (
                '{n} was [scared too|not big and not strong], but {n} [walked|went] closer and closer. "Who are '
                'you?" asked {n}.'
            ),
            (
                "It was [only a lost balloon in a tree|just the wind in an old barrel|a big old dog with a thorn "
                "in its paw]! {n} [laughed|helped], and soon everyone [laughed too|came closer]."
            ),
            (
                'After that day, when somebody was afraid, they said: "[Let us go and look, like {n} did|Be '
                'brave like {n}]."'
            ),
        ],
    ],
    "sharing": [
        [
            (
                "One autumn {n} found [a basket of apples|a big box of nuts|a huge cake|a jar of golden honey]. "
                '"[This is all mine|I will eat it all alone]," thought {n}, and hid it [under a tree|behind a '
                "wall|in a dark corner]."
            ),
            (
                'Then {a_friend} came by. "[I have not eaten all day|I am so hungry]," said the {friend}. {n} '
                "[looked at the ground|thought for a moment]."
            ),
            (
                '"Come," said {n}, "[there is enough for two|let us share]." They ate together, and everything '
                "tasted [twice as good|better than ever]."
            ),
            (
                "In winter {n} had nothing left to eat. But the {friend} came with [a warm bread|a full bag]. "
                '"[You shared with me, now I share with you|Let us share]," said the {friend}. And so both [were '
                "happy|had enough]."
            ),
        ],
        [
            (
                "{n} had the most beautiful [red kite|lantern|drum|blue ball] {at}, but {n} never let anyone "
                "touch it. So {n} always played alone."
            ),
            (
                'One day the {friend} [watched from far away|sat alone on a bench]. {n} asked, "[Would you like '
                'to try it|Do you want to play with it]?"'
            ),
            (
                "The eyes of the {friend} [began to shine|grew wide]. They took turns, and [they laughed more "
                "than ever before|soon others came and played too]."
            ),
            (
                'In the evening {n} said, "[A toy is only half the fun when you play alone|Sharing makes '
                'everything more fun]."'
            ),
        ],
    ],
    "honesty": [
        [
            (
                "One day {n} [broke a beautiful vase|lost the key of the old gate|ate the cake of the {friend}]. "
                'Nobody had seen it. "[I could just say nothing|Nobody will ever know]," thought {n}.'
            ),
            (
                'But {n} could not [sleep|eat|laugh] any more. The {friend} asked everyone, "[Who did it|Do you '
                'know what happened]?"'
            ),
            (
                'At last {n} [went to the {friend}|stepped forward] and said, "It was me. I am sorry." For a '
                "moment it was very quiet."
            ),
            (
                'Then the {friend} smiled. "[Thank you for telling the truth|It takes courage to say that]." '
                "[Together they repaired everything.|They baked a new cake together.] {n} felt light again and "
                "[slept well that night|never forgot that day]."
            ),
        ]
    ],
    "curiosity": [
        [
            (
                "One morning {n} found [an old map|a tiny golden key|a strange blue egg|a bottle with a letter]. "
                '"What can this be?" wondered {n}.'
            ),
            (
                '{n} asked {a_friend}. "[I do not know, but let us find out|There is only one way to find out]," '
                "said the {friend}. So they [went over hills and through tall grass|followed a narrow path|"
                "walked all day]."
            ),
            (
                "At the end they found [a hidden door|an old chest|a small house covered with flowers]. Inside "
                "there were [hundreds of books full of stories|shining stones in all colours|little lights that "
                "danced in the air]."
            ),
            (
                '"[How good that we were curious|If we had not asked, we would never have found it]," said {n}. '
                "And they [came back every week|told everyone about it]."
            ),
        ],
        [
            (
                '{n} always asked questions. "Why is the sky blue? Where does the river go? [Who lights the '
                'stars|What is behind the hill]?" The others only [laughed|shook their heads].'
            ),
            (
                "One day {n} decided to find out [where the river goes|what is behind the hill] and set off with "
                "{a_friend}."
            ),
            (
                "They walked [for three days|a long way]. They met [a kind old turtle|a wise owl|a friendly "
                'ferryman] who said, "[Whoever asks will learn|A question is the beginning of every journey]." '
                "And then they saw it: [the great shining sea|a valley full of flowers]."
            ),
            (
                "When they came home, everyone wanted to hear about it. From then on [nobody laughed at "
                "questions any more|everyone asked {n} for stories]."
            ),
        ],
    ],
    "patience": [
        [
            (
                "{n} planted [a small seed|a tiny tree|an apple seed] and [sat down to wait|watched the ground]. "
                'But nothing happened. "[When will it grow|Why does it take so long]?" asked {n}.'
            ),
            (
                '"[Good things take time|Be patient]," said the old {friend}. Every day {n} gave it some water. '
                "Days went by, and then weeks."
            ),
            (
                "One morning there was a tiny green leaf! {n} danced with joy. The leaf became [a flower|a bush|"
                "a tree], and the tree had [sweet fruit|golden blossoms]."
            ),
            (
                '"You were right," {n} said to the {friend}. "[Waiting was hard, but it was worth it|Good things '
                'take time]."'
            ),
        ]
    ],
    "kindness": [
        [
            (
                "One cold day {n} met {a_friend} who had [hurt a foot|lost its house in the storm|no warm coat]. "
                "[Many had walked past|Nobody had stopped], but {n} stopped."
            ),
            (
                '"[Can I help you|What has happened]?" asked {n}. {n} [carried the {friend} home|gave the '
                "{friend} a warm scarf|built a new house with the {friend}]."
            ),
            (
                '"Why are you so kind?" asked the {friend}. "[Because it costs nothing|Because it makes us both '
                'happy]," said {n}.'
            ),
            (
                "Soon [the others|all the neighbours] began to help each other too. And [the place|all of them] "
                "became a little warmer, even in the coldest winter."
            ),
        ],
        [
            (
                '{n} met an old {friend} who was known to be [grumpy|unfriendly]. "Go away!" called the '
                "{friend}. But {n} [came back the next day with flowers|smiled and left a piece of cake at the "
                "door]."
            ),
            (
                "The next day {n} came again, and the day after too. [At last|On the fifth day] the {friend} "
                'opened the door. "Why do you come back?"'
            ),
            (
                '"[Because nobody should be alone|I think you need a friend]," said {n}. The {friend} was quiet '
                "for a long time. Then a tear rolled down, and then came a smile."
            ),
            (
                "After that the old {friend} was [never grumpy again|the best storyteller of all]. A little "
                "kindness had opened the door."
            ),
        ],
    ],
    "helping others": [
        [
            (
                "One day a great [storm|flood|snowfall] came. [The house of the {friend} was destroyed|The "
                "{friend} was trapped under a branch]. {n} heard the call for help."
            ),
            (
                '{n} ran [as fast as possible|through the rain]. "[I am coming|Hold on]!" shouted {n}. Then {n} '
                "[pulled and pulled|looked for others who could help]."
            ),
            (
                "After a long time [the {friend} was free|they had saved everything]. "
                '"Thank you, {n}! How can I ever thank you?" '
                '"[You would have done the same|Just help the next one]," said {n}.'
            ),
            (
                "And so it went on: the {friend} helped [a bee|a mouse|a duckling], and that one helped another. "
                "[In the end everyone helped everyone.|One good deed travelled through the whole land.]"
            ),
        ]
    ],
    "teamwork": [
        [
            (
                "{n} wanted to [build a bridge over the stream|move a big stone from the path|pull an enormous "
                "turnip out of the ground|carry a piano up the hill]. {n} pushed and pulled, but alone it was "
                "[impossible|much too hard]."
            ),
            (
                'Then {a_friend} came by. "[Let me help|Two are stronger than one]," said the {friend}. They '
                "tried together, but it was still too hard."
            ),
            (
                "So they asked everyone: the strong ones [pulled|carried], the small ones [tied the ropes|showed "
                "the way], and the clever ones [made a plan|counted one, two, three]. And [suddenly|at last] it "
                "worked!"
            ),
            (
                'They all [cheered|danced in a circle]. "[Alone I am small, but together we are strong|Together '
                'we can do anything]," said {n}.'
            ),
        ]
    ],
    "never giving up": [
        [
            (
                "{n} had a dream: {n} wanted to [learn to fly|win the great race|climb the highest rock|play the "
                'flute]. Everyone laughed. "You can never do that!"'
            ),
            (
                "{n} tried and [fell|failed]. {n} tried again and [fell|failed] again. Only {a_friend} said, "
                '"[Try once more|Do not give up]."'
            ),
            (
                "So {n} practised every day, [in sun and in rain|early in the morning and late at night]. And "
                "one day, when nobody expected it, {n} [did it|made it]!"
            ),
            (
                '"How did you do that?" everyone asked. {n} smiled. "[I fell ten times and stood up eleven times|'
                'I just did not give up]."'
            ),
        ]
    ],
}
CLOSE = [
    (
        "[And they lived happily ever after.|The end.|And if you listen closely, you can still hear them "
        "laugh.|That is the end of the story.|]"
    )
]
TITLES = [
    "The {hero} and the {friend}",
    "{n}'s [big day|adventure|great idea]",
    "{Hero} {at_title}",
    "A story about {theme}",
]


def story(
    rng: random.Random, hero=None, place=None, theme=None, name=None, friend=None, short=False, title=False
) -> str:
    adj = ""
    if hero is None:
        hero = rng.choice(HEROES)
    if place is None:
        place = rng.choice(PLACES)
    if theme is None:
        theme = rng.choice(THEMES)
    if not any(hero.startswith(x + " ") for x in HERO_ADJ) and rng.random() < 0.6:
        adj = rng.choice(HERO_ADJ) + " "
    if friend is None:
        friend = rng.choice([f for f in FRIENDS if f not in hero])
    if name is None and rng.random() < 0.5:
        name = rng.choice(NAMES)
    n = name or "the " + hero
    slots = {
        "hero": hero,
        "Hero": cap(hero),
        "a_hero": a_an(adj + hero),
        "n": n,
        "at": at(place),
        "At": cap(at(place)),
        "friend": friend,
        "a_friend": a_an(friend),
        "theme": theme,
        "at_title": at(again(place)),
    }
    parts = [say(rng, OPEN_NAMED if name else OPEN, **slots)]
    mood = say(rng, MOOD, **slots)
    if mood and not short:
        parts.append(mood)
    plot = rng.choice(PLOTS[theme])
    slots["at"] = at(again(place))
    body = [say(rng, p, **slots) for p in plot]
    if short:
        body = [body[0], body[2], body[3]]
    parts[-1] = " ".join(parts[-2:] if len(parts) > 1 else parts)
    text = parts[-1] + "\n\n" + "\n\n".join([" ".join(body[:2]), *body[2:]])
    end = say(rng, CLOSE, **slots)
    if end:
        text += " " + end
    # a sentence may start with "the fox"
    out = []
    for para in text.split("\n\n"):
        for mark in (". ", "! ", "? ", '." ', '!" ', '?" '):
            para = para.replace(mark + "the ", mark + "The ")
        out.append(cap(para))
    text = "\n\n".join(out)
    if title:
        head = say(rng, TITLES, **slots)
        if head[:4] == "the ":
            head = cap(head)
        text = f"**{head}**\n\n{text}"
    return text
