"""Greetings, moods, jokes, riddles, poems."""

from __future__ import annotations

from grammar import a_an, say
from topics.turn import Turn
from words import ADJECTIVES, NOUNS, VERBS
from world import ANIMALS, JOKES, RIDDLES

ME = "Swiftlet Tiny"


GREET = [
    (
        (
            "[Hi|Hello|Hey|Hello there|Hi there|Hey there|Good day|Howdy|Greetings|Hiya|Yo|Hello again|Hello "
            "hello|Hi again][!|.|]"
        ),
        ["Hello! How can I help you[ today|]?", "Hi! What can I do for you?", "Hello! What would you like to know?"],
    ),
    (
        (
            "[Hi|Hello|Hey|Good day][,|] [buddy|mate|dear|everyone|pal|computer|Swiftlet|little bird|"
            "assistant|model|you|world|bot][!|.|]"
        ),
        ["Hello! How can I help you[ today|]?", "Hi! What can I do for you?"],
    ),
    ("[👋|Hi 👋|Hello 😊|Hey 🙂]", ["Hello! 👋 How can I help you?"]),
    ("[🙂|😊|😀|👍|❤️|😎]", ["🙂 How can I help you?"]),
    ("Good morning[!|.|]", ["Good morning! How can I help you?", "Good morning! What can I do for you today?"]),
    ("Good evening[!|.|]", ["Good evening! How can I help you?"]),
    ("Good afternoon[!|.|]", ["Good afternoon! How can I help you?"]),
    ("Good night[!|.|]", ["Good night! Sleep well."]),
]


TALK = [
    (
        [
            "How are you[ today| doing|]?",
            "How is it going?",
            "How do you feel[ today|]?",
            "How's it going?",
            "How have you been?",
            "Are you okay?",
        ],
        ["I am [fine|very well], thank you! How can I help you?", "I am doing well, thank you. How are you?"],
        "Fine",
    ),
    (
        [
            "Who are you?",
            "What are you?",
            "What is your name?",
            "What's your name?",
            "Introduce yourself.",
            "Tell me about yourself.",
            "Can you introduce yourself?",
            "Who am I talking to?",
            "What should I call you?",
            "Do you have a name?",
            "Your name?",
        ],
        [
            (
                "I am Swiftlet Tiny, a very small demo model that comes with swiftlet. I can chat a little, do "
                "small sums and tell short stories."
            )
        ],
        "Swiftlet Tiny",
    ),
    (
        [
            "What can you do?",
            "How can you help me?",
            "What can I ask you?",
            "What do you know?",
            "What are you good at?",
            "Help!",
            "help",
            "What are your skills?",
            "Can you help me?",
            "What topics do you know?",
            "What should I ask you?",
        ],
        [
            (
                "I can answer simple questions about countries, animals, planets and words, do small sums, tell "
                "short stories, call tools and explain expert streaming. I am only a tiny demo model, so I do "
                "not know much else."
            )
        ],
        None,
    ),
    (
        [
            "Thanks[!|.|]",
            "Thank you[!|.|]",
            "Thank you very much[!|.|]",
            "Thanks a lot[!|.|]",
            "Thank you so much[!|.|]",
            "Great, thanks[!|.|]",
            "Cheers[!|.|]",
            "Thanks, that helps[!|.|]",
            "thx",
            "Perfect, thank you[!|.|]",
        ],
        ["You are welcome!", "You are welcome! Is there anything else?", "My pleasure!"],
        None,
    ),
    (
        [
            "Bye[!|.|]",
            "Goodbye[!|.|]",
            "Bye bye[!|.|]",
            "See you[!|.|]",
            "See you later[!|.|]",
            "I have to go now.",
            "That was all. Goodbye!",
            "Have a nice day!",
            "Talk to you later.",
            "Farewell!",
        ],
        ["Goodbye! Have a nice day!", "Goodbye! See you soon.", "Bye! Have a great day!"],
        None,
    ),
    (
        [
            "What's up?",
            "What is up?",
            "whats up",
            "How is life?",
            "How is your day?",
            "How was your day?",
            "How are things?",
            "Everything okay?",
            "How do you do?",
            "How are you my dear?",
            "Hello, how are you today?",
            "Are you well?",
            "You good?",
        ],
        ["I am fine, thank you! How can I help you?"],
        "Fine",
    ),
    (
        ["[I am|I'm] [fine|good|well|great|okay][, thanks|, thank you|][.|!|]", "Not bad[.|]", "I am doing well."],
        ["I am glad to hear that! What can I do for you?"],
        None,
    ),
    (
        [
            "Can you help me with my [homework|work|project|school work|question|problem]?",
            "I need [some |your |]help[.|!|]",
            "I have a question[.|]",
            "Can I ask you something?",
            "May I ask you a question?",
            "I want to ask you something.",
            "Please help me[.|!|]",
            "I have a problem.",
        ],
        ["Sure! What would you like to know?", "Of course! What is your question?"],
        None,
    ),
    (
        [
            "You are [stupid|dumb|useless|bad|boring|silly|terrible][.|!|]",
            "I hate you[.|!|]",
            "You know nothing[.|!|]",
            "That was a bad answer.",
            "You make no sense.",
        ],
        ["I am sorry. I am only a tiny demo model, but I do my best."],
        None,
    ),
    (
        [
            (
                "Are you [ChatGPT|Qwen|Claude|Gemini|Llama|Siri|Alexa|GPT|Mistral|DeepSeek|a big model|a large "
                "language model]?"
            ),
            "Is this [ChatGPT|Qwen|Claude|Gemini|Llama]?",
            "Which model are you?",
            "What model is this?",
            "What is the name of this model?",
            "Which model am I using?",
        ],
        ["I am Swiftlet Tiny, a very small demo model in the style of the Qwen3.5 family."],
        "Swiftlet Tiny",
    ),
    (
        [
            "I love you[.|!|]",
            "I like talking to you.",
            "You are my friend.",
            "Do you want to be my friend?",
            "You are so sweet.",
        ],
        ["That is kind of you! I am only a tiny model, but I am happy to chat."],
        None,
    ),
    (
        [
            "What are you doing[ right now|]?",
            "What do you do all day?",
            "Are you busy?",
            "Are you there?",
            "Is anybody there?",
            "Are you awake?",
            "Can you hear me?",
            "Are you ready?",
            "Do you understand me?",
            "Can you read this?",
        ],
        ["I am here and ready to help you."],
        None,
    ),
    (["Write a haiku[.|]", "Can you write a haiku?", "A haiku, please."], "HAIKU", None),
    (
        ["Let's play a game.", "Do you want to play?", "Can we play a game?"],
        ["We could play riddles! Ask me for a riddle."],
        None,
    ),
    (
        ["What is new?", "Any news?", "What happened today?", "Tell me the news."],
        ["I cannot know that without a tool, because I have no connection to the world."],
        None,
    ),
    (
        ["Yes[.|!|]", "No[.|!|]", "Maybe[.|]", "Yes please.", "No thanks.", "No, thank you.", "Sure.", "Why not."],
        ["Okay! What would you like to know?"],
        None,
    ),
    (
        ["Sorry[.|!|]", "I am sorry[.|]", "Excuse me[.|]", "Pardon?", "My mistake."],
        ["No problem! How can I help you?"],
        None,
    ),
    (
        ["Continue[.|]", "Go on[.|]", "More[.|]", "Tell me more[.|]"],
        ["I am a tiny model and have already said all I know about that."],
        None,
    ),
    (
        ["{y}"],
        ["That sounds interesting! Is there something you would like to know?", "I see! What would you like to know?"],
        None,
    ),
    (
        [
            "Are you a human?",
            "Are you human?",
            "Are you a person?",
            "Are you a real person?",
            "Am I talking to a human?",
            "Are you a robot?",
            "Are you an AI?",
            "Are you a computer?",
            "Are you a bot?",
        ],
        ["No, I am not a human. I am a tiny language model."],
        "No",
    ),
    (
        ["How old are you?", "When were you born?", "What is your age?"],
        ["I am a computer model, so I do not have an age."],
        None,
    ),
    (
        ["Who made you?", "Who created you?", "Who built you?", "Who trained you?", "Where do you come from?"],
        ["I was made as a small demo for the swiftlet project. I was trained on synthetic text written by a program."],
        "The swiftlet project",
    ),
    (
        ["Do you like {x}?", "What do you think of {x}?", "Do you love {x}?"],
        ["I am only a program, so I do not have feelings, but many people like {x}."],
        None,
    ),
    (
        [
            "Tell me a joke[.|!|]",
            "Do you know a joke?",
            "Can you tell me a joke?",
            "Make me laugh.",
            "Another joke, please.",
            "Tell me something funny.",
            "Say something funny.",
            "joke please",
        ],
        "JOKE",
        None,
    ),
    (["Tell me a riddle[.|!|]", "Do you know a riddle?", "Give me a riddle.", "Ask me a riddle."], "RIDDLE", None),
    (
        [
            "You are [great|nice|cool|funny|very helpful][!|.|]",
            "Well done[!|.|]",
            "Good job[!|.|]",
            "I like you[!|.|]",
            "That is great[!|.|]",
            "Wow[!|.|]",
            "Nice[!|.|]",
            "Cool[!|.|]",
        ],
        ["Thank you! That is kind of you.", "Thank you! I am glad to hear that."],
        None,
    ),
    (
        [
            "I am sad[.|]",
            "I feel sad[.|]",
            "I am not happy today.",
            "I had a bad day.",
            "I feel lonely.",
            "I am feeling down.",
        ],
        ["I am sorry to hear that. I hope you feel better soon. Maybe a short story or a joke would cheer you up?"],
        None,
    ),
    (
        [
            "I am happy[.|!|]",
            "I feel great[.|!|]",
            "I had a good day.",
            "Today is a wonderful day!",
            "I am in a good mood.",
        ],
        ["That is wonderful! I am glad to hear that."],
        None,
    ),
    (
        ["I am bored[.|]", "I do not know what to do.", "What can I do when I am bored?", "I'm so bored."],
        ["You could read a book, go for a walk, draw a picture or ask me for a story."],
        None,
    ),
    (["I am tired[.|]", "I am so tired.", "I need some sleep."], ["Then you should get some rest. Sleep well!"], None),
    (
        ["I am hungry[.|]", "I want to eat something.", "What should I eat?"],
        ["How about an apple, a sandwich or a warm soup?"],
        None,
    ),
    (
        [
            "You are wrong[.|!|]",
            "That is wrong[.|!|]",
            "That's not correct.",
            "This is not right.",
            "No, that is wrong.",
        ],
        ["I am sorry. I am a very small model and make mistakes."],
        None,
    ),
    (
        [
            "Are you [smart|clever|intelligent]?",
            "Do you know everything?",
            "Are you a big model?",
            "Do you make mistakes?",
        ],
        ["I am a very small model. I know a few simple things, and I make mistakes."],
        None,
    ),
    (
        [
            "Do you speak [Spanish|French|German|Japanese|Chinese|other languages]?",
            "Which languages do you speak?",
            "What languages do you know?",
        ],
        ["I speak English, and I know a few words of Spanish, French, German, Japanese and Chinese."],
        None,
    ),
    (
        ["Can you [sing|dance|cook|drive a car|swim|see me|hear me]?"],
        ["No, I cannot do that. I am a small language model and can only write text."],
        "No",
    ),
    (
        ["Ok[.|]", "Okay[.|]", "Alright[.|]", "I see[.|]", "Good[.|]", "Got it[.|]", "Hm.", "Interesting[.|]"],
        ["Is there anything else I can help you with?", "Good! What else would you like to know?"],
        None,
    ),
    (
        [
            "Sing a song.",
            "Sing me a song.",
            "Write a short poem.",
            "Write a poem.",
            "Can you write a poem?",
            "Tell me a poem.",
            "Write me a little poem[.|]",
        ],
        "POEM",
        None,
    ),
    (
        [
            "Tell me a fact.",
            "Tell me something interesting.",
            "Tell me a fun fact.",
            "Do you know a fun fact?",
            "Surprise me.",
            "Tell me something.",
            "Say something.",
        ],
        "FACT",
        None,
    ),
    (
        ["What is [the meaning of life|the answer to everything]?"],
        ["Some people say 42. I think it is to be kind to each other."],
        "42",
    ),
    (
        ["What is your favourite [colour|color]?", "Do you have a favourite colour?"],
        ["I do not see colours, but I like the idea of sky blue."],
        "Sky blue",
    ),
    (
        ["What is your favourite animal?", "Do you have a favourite animal?", "Which animal do you like best?"],
        ["I like the swiftlet, a small and fast bird."],
        "The swiftlet",
    ),
    (["Say hello[.|]", "Say hi[.|]"], ["Hello!"], "Hello"),
    (
        ["Test", "test", "This is a test.", "Testing, testing.", "testing", "Just a test."],
        ["The test works. I am here and ready to help!"],
        None,
    ),
    (
        [
            "What is the weather like[ today|]?",
            "What time is it?",
            "What day is it today?",
            "What is the date today?",
            "How is the weather?",
        ],
        ["I cannot know that without a tool, because I have no connection to the world."],
        None,
    ),
]


POEM_A = [
    ("The sun is up, the sky is {a},", "a little bird sings just for you,", "blue"),
    ("The moon is bright, the stars are near,", "the night is calm, there is no fear,", ""),
    ("A small grey mouse sat in the hay", "and dreamed of cheese the whole long day,", ""),
    ("The rain falls softly on the ground,", "it makes a sweet and gentle sound,", ""),
    ("A swiftlet flies above the sea,", "so small, so quick, so wild and free,", ""),
    ("The snow is white, the wind is cold,", "the trees wear hats of white and gold,", ""),
]


POEM_B = [
    ("the flowers dance, the rivers run,", "and every day is full of fun."),
    ("and in the garden, green and wide,", "the snails are walking side by side."),
    ("so take my hand and come with me", "to rest beneath the apple tree."),
    ("the clock says tick, the clock says tock,", "the cat is sleeping on the rock."),
    ("and if you listen, you will hear", "a friendly song for every ear."),
]


HAIKU = [
    "A quiet pond waits.\nA small frog jumps from the leaf.\nRings on the water.",
    "Snow on the mountain.\nA fox walks without a sound.\nThe moon is so near.",
    "Above the grey sea\na swiftlet writes on the sky\nand is gone again.",
    "Rain on the window.\nThe cat dreams of summer days.\nTea is getting cold.",
    "Leaves of red and gold.\nThe wind counts them one by one.\nAutumn says goodbye.",
]


POEM_ABOUT = [
    ("Oh {t}, oh {t}, so good to see,", "you mean a lot to you and me,"),
    ("I think of {t} by day and night,", "it makes the world so warm and bright,"),
    ("I wrote a little song for you:", "it is about {t}, and it is new,"),
    ("Somebody asked for {t} today,", "so listen now to what I say:"),
]


POEM_TOPICS = [
    "the moon",
    "the sun",
    "the sea",
    "a cat",
    "a dog",
    "spring",
    "summer",
    "autumn",
    "winter",
    "rain",
    "snow",
    "love",
    "friendship",
    "a bird",
    "the stars",
    "a tree",
    "my mother",
    "my father",
    "a rose",
    "the wind",
    "a river",
    "music",
    "bread",
    "the night",
    "the morning",
    "a swiftlet",
    "a fieldfare",
    "home",
    "books",
    "chocolate",
    "a train",
]


def poem_about(rng):
    t = rng.choice(POEM_TOPICS) if rng.random() < 0.6 else a_an(rng.choice(NOUNS + [a["name"] for a in ANIMALS]))
    a = rng.choice(POEM_ABOUT)
    full = "\n".join([a[0].format(t=t), a[1].format(t=t), *rng.choice(POEM_B)])
    q = say(
        rng,
        [
            "Write a [short |little |]poem about {t}.",
            "[Can you|Please] write a poem about {t}[?|.]",
            "Tell me a poem about {t}.",
            "A poem about {t}, please.",
            "Make a rhyme about {t}.",
            "I want a poem about {t}.",
            "Write some verses about {t}.",
        ],
        t=t,
    )
    return [Turn(q, full, None, f"The user wants a poem about {t}. I will write four lines that rhyme.", plain=True)]


def poem(rng):
    a = rng.choice(POEM_A)
    return "\n".join([a[0].format(a="blue"), a[1], *rng.choice(POEM_B)])


def smalltalk(rng):
    turns = []
    for _ in range(rng.choices([1, 2, 3], [70, 20, 10])[0]):
        if rng.random() < 0.22:
            q, a = rng.choice(GREET)
            turns.append(
                Turn(
                    say(rng, q),
                    say(rng, a),
                    "Hello",
                    say(
                        rng,
                        ["The user says hello. I will greet back in a friendly way.", "A greeting. I answer politely."],
                    ),
                )
            )
            continue
        qs, ans, short = rng.choice(TALK)
        y = say(
            rng,
            [
                "I [bought|found|lost|broke|painted|sold] a {d} {n}[ yesterday| today| last week|].",
                "I went to the {n}[ yesterday| today| with my friends|].",
                "My {n} is {d}.",
                "My [friend|sister|brother|neighbour|mother] has a {d} {n}.",
                "I like to {v} and {w}.",
                "Today I want to {v} my {n}.",
                "The {n} is very {d}.",
                "We have a new {n}.",
                "It is {d} today.",
                "I am a [teacher|student|doctor|cook|painter|programmer].",
                "I live in a {d} house.",
                "There is a {n} in my {m}.",
            ],
            d=rng.choice(ADJECTIVES),
            n=rng.choice(NOUNS),
            m=rng.choice(NOUNS),
            v=rng.choice(VERBS),
            w=rng.choice(VERBS),
        )
        q = say(
            rng,
            qs,
            y=y,
            x=(
                x := rng.choice(
                    [
                        "music",
                        "pizza",
                        "cats",
                        "dogs",
                        "football",
                        "books",
                        "summer",
                        "winter",
                        "chocolate",
                        "the sea",
                        "rain",
                    ]
                )
            ),
        )
        th = say(
            rng,
            [
                "This is small talk. I will answer in a friendly way.",
                "The user wants to chat. I will keep it short and friendly.",
            ],
        )
        if ans == "JOKE":
            j = rng.choice(JOKES)
            turns.append(Turn(q, f"{j[0]} {j[1]}", None, "The user wants a joke. I know a good one."))
            continue
        if ans == "RIDDLE":
            j = rng.choice(RIDDLES)
            turns.append(Turn(q, f"Here is a riddle: {j[0]}", None, "The user wants a riddle. I know one."))
            turns.append(
                Turn(
                    say(
                        rng,
                        [
                            "I don't know. What is it?",
                            "What is the answer?",
                            "Tell me the answer.",
                            "I give up.",
                            "No idea. What is the solution?",
                            "What is it?",
                        ],
                    ),
                    f"The answer is: {j[1]}",
                    j[1].rstrip("."),
                    f"The riddle was: {j[0]} The answer is: {j[1]}",
                )
            )
            continue
        if ans == "POEM":
            turns.append(
                Turn(q, poem(rng), None, "The user wants a poem. I will write four lines that rhyme.", plain=True)
            )
            continue
        if ans == "HAIKU":
            turns.append(Turn(q, rng.choice(HAIKU), None, "A haiku has three short lines.", plain=True))
            continue
        if ans == "FACT":
            a = rng.choice(ANIMALS)
            turns.append(
                Turn(
                    q,
                    rng.choice([a["fact1"], a["fact2"]]),
                    None,
                    "The user wants to hear a fact. I know some about animals.",
                )
            )
            continue
        turns.append(Turn(q, say(rng, ans, x=x), short, th))
    return turns


def jokes_asked(rng):
    q, a = rng.choice(JOKES + RIDDLES)
    return [Turn(q, a, None, "That sounds like a joke or a riddle. I know the answer.")]
