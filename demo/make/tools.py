"""Tool-calling dialogues: tool descriptions, requests, calls, results and the closing answer."""

from __future__ import annotations

import json

from grammar import cap, say
from topics.animals import animals
from topics.countries import countries
from topics.facts import planets
from topics.smalltalk import smalltalk
from topics.turn import any_word, nonsense
from topics.vocabulary import colours, opposites
from unknown import unknown
from world import CITIES, COUNTRIES, NAMES, WORD_LIST, WORDS

SKY = ["sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "stormy", "clear"]
ROOMS = ["kitchen", "bedroom", "bathroom", "living room", "garage", "garden", "office", "hall"]
SONGS = [
    "Blue River",
    "Summer Rain",
    "Little Bird",
    "Moonlight Walk",
    "Happy Train",
    "Golden Fields",
    "Ocean Song",
    "Night Sky",
    "Dancing Stars",
    "Winter Tale",
]
CURR = ["euros", "dollars", "pounds", "yen", "francs", "pesos"]


class Tool:
    def __init__(self, names, descriptions, params, request, result):
        self.names, self.descriptions, self.params, self.request, self.result = (
            names,
            descriptions,
            params,
            request,
            result,
        )

    def spec(self, rng, name):
        props = {
            p: {"type": t, "description": d} if d and rng.random() < 0.7 else {"type": t} for p, t, d in self.params
        }
        fn = {
            "name": name,
            "description": say(rng, self.descriptions),
            "parameters": {"type": "object", "properties": props, "required": [p for p, _, _ in self.params]},
        }
        if rng.random() < 0.1:
            fn["parameters"].pop("required")
        return {"type": "function", "function": fn} if rng.random() < 0.9 else fn


def _weather(rng):
    c = rng.choice(CITIES)
    q = say(
        rng,
        [
            "[What is|What's|How is] the weather [like |]in {c}[ today| right now| now|]?",
            "Is it [raining|cold|warm|sunny] in {c}[ today|]?",
            "Tell me the weather in {c}.",
            "weather in {c}?",
            "Do I need an umbrella in {c}?",
            "How warm is it in {c}?",
            "Can you check the weather in {c}?",
            "I am going to {c} today. What is the weather there?",
            "Please look up the weather for {c}.",
            "What is the temperature in {c}?",
        ],
        c=c,
    )
    return q, {"city": c}, f"about the weather in {c}"


def _weather_r(rng, a):
    t, s = rng.randint(-8, 36), rng.choice(SKY)
    out = rng.choice(
        [
            json.dumps({"city": a["city"], "temperature": t, "condition": s}),
            json.dumps({"temperature_c": t, "sky": s}),
            f"{t} degrees, {s}",
            json.dumps({"temp": t, "weather": s, "unit": "C"}),
            f"{s}, {t} C",
        ]
    )
    return out, f"In {a['city']} it is {s} with {t} degrees."


def _two(rng, hi=999):
    return rng.randint(0, hi), rng.randint(0, hi)


def _add(rng):
    a, b = _two(rng)
    return (
        say(
            rng,
            [
                "[What is|What's] {a} [+|plus|and] {b}?",
                "Add {a} and {b}.",
                "Calculate {a} + {b}.",
                "Can you add {a} and {b}?",
                "Use the tool to add {a} and {b}.",
                "{a} + {b}",
                "What is the sum of {a} and {b}?",
                "Please compute {a} plus {b}.",
            ],
            a=a,
            b=b,
        ),
        {"a": a, "b": b},
        f"for the sum of {a} and {b}",
    )


def _add_r(rng, a):
    r = a["a"] + a["b"]
    return rng.choice([str(r), json.dumps({"result": r}), json.dumps({"sum": r})]), f"{a['a']} + {a['b']} = {r}."


def _mul(rng):
    a, b = _two(rng, 200)
    return (
        say(
            rng,
            [
                "[What is|What's] {a} [×|x|*|times] {b}?",
                "Multiply {a} by {b}.",
                "Multiply {a} and {b}.",
                "Calculate {a} × {b}.",
                "What is the product of {a} and {b}?",
            ],
            a=a,
            b=b,
        ),
        {"a": a, "b": b},
        f"for the product of {a} and {b}",
    )


def _mul_r(rng, a):
    r = a["a"] * a["b"]
    return rng.choice([str(r), json.dumps({"result": r}), json.dumps({"product": r})]), f"{a['a']} × {a['b']} = {r}."


def _time(rng):
    c = rng.choice(CITIES)
    return (
        say(
            rng,
            [
                "What time is it in {c}[ now|]?",
                "Tell me the time in {c}.",
                "What is the local time in {c}?",
                "time in {c}?",
                "How late is it in {c}?",
                "Can you tell me what time it is in {c}?",
            ],
            c=c,
        ),
        {"city": c},
        f"for the time in {c}",
    )


def _time_r(rng, a):
    t = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    return rng.choice(
        [t, json.dumps({"time": t}), json.dumps({"city": a["city"], "local_time": t})]
    ), f"It is {t} in {a['city']}."


def _dice(rng):
    n = rng.choice([4, 6, 8, 10, 12, 20])
    return (
        say(
            rng,
            [
                "Roll a dice with {n} sides.",
                "Roll a {n}-sided dice[ for me|].",
                "Please roll a dice with {n} sides.",
                "Throw a dice with {n} sides.",
            ],
            n=n,
        ),
        {"sides": n},
        "to roll a dice",
    )


def _dice_r(rng, a):
    r = rng.randint(1, a["sides"])
    return rng.choice([str(r), json.dumps({"result": r}), json.dumps({"roll": r})]), f"I rolled a {r}."


def _timer(rng):
    n = rng.randint(1, 60)
    return (
        say(
            rng,
            [
                "Set a timer for {n} minutes.",
                "[Please|Can you] set a timer for {n} minutes[.|?]",
                "Start a timer of {n} minutes.",
                "Timer: {n} minutes.",
                "Wake me in {n} minutes.",
            ],
            n=n,
        ),
        {"minutes": n},
        f"to set a timer for {n} minutes",
    )


def _timer_r(rng, a):
    return rng.choice(
        ["ok", json.dumps({"status": "ok"}), "timer started", json.dumps({"success": True})]
    ), f"The timer is set for {a['minutes']} minutes."


def _song(rng):
    s = rng.choice(SONGS)
    return (
        say(
            rng,
            ["Play {s}.", "Play the song {s}.", "[Please|Can you] play {s}[.|?]", "I want to hear {s}.", "Put on {s}."],
            s=s,
        ),
        {"title": s},
        f"to play {s}",
    )


def _song_r(rng, a):
    return rng.choice(["ok", "playing", json.dumps({"status": "playing"})]), f"Now playing {a['title']}."


def _msg(rng):
    n = rng.choice(NAMES)
    t = rng.choice(
        [
            "I am on my way",
            "dinner is ready",
            "see you tomorrow",
            "call me back",
            "happy birthday",
            "I will be late",
            "good luck",
            "thank you for the flowers",
            "the train is late",
            "I love the book",
        ]
    )
    return (
        say(
            rng,
            [
                "Send a message to {n}: {t}",
                "Tell {n}: {t}",
                "Write to {n}: {t}",
                "Message {n} this: {t}",
                'Send {n} the message "{t}".',
            ],
            n=n,
            t=t,
        ),
        {"to": n, "text": t},
        f"to send a message to {n}",
    )


def _msg_r(rng, a):
    return rng.choice(["sent", json.dumps({"status": "sent"}), "ok"]), f"I sent your message to {a['to']}."


def _money(rng):
    n = rng.randint(1, 500)
    a, b = rng.sample(CURR, 2)
    return (
        say(
            rng,
            [
                "Convert {n} {a} to {b}.",
                "How many {b} are {n} {a}?",
                "How much is {n} {a} in {b}?",
                "Change {n} {a} into {b}.",
            ],
            n=n,
            a=a,
            b=b,
        ),
        {"amount": n, "from": a, "to": b},
        f"to convert {n} {a}",
    )


def _money_r(rng, a):
    r = rng.randint(1, 900)
    return rng.choice(
        [str(r), json.dumps({"result": r}), json.dumps({"amount": r, "currency": a["to"]})]
    ), f"{a['amount']} {a['from']} are {r} {a['to']}."


def _pop(rng):
    c = rng.choice(COUNTRIES)["name"]
    return (
        say(rng, ["What is the population of {c}?", "How many people live in {c}?", "population of {c}?"], c=c),
        {"country": c},
        f"for the population of {c}",
    )


def _pop_r(rng, a):
    n = rng.randint(1, 300)
    return rng.choice(
        [f"{n} million", json.dumps({"population": f"{n} million"})]
    ), f"About {n} million people live in {a['country']}."


def _search(rng):
    t = rng.choice(
        [
            "the Roman Empire",
            "black holes",
            "chess openings",
            "the Titanic",
            "jazz music",
            "solar panels",
            "the Vikings",
            "volcano tours",
            "bread recipes",
            "train tickets",
            "winter shoes",
            "city maps",
            "old coins",
            "steam engines",
            "garden birds",
        ]
    )
    return (
        say(
            rng,
            [
                "Search for {t}.",
                "Search the web for {t}.",
                "Look up {t}.",
                "Find information about {t}.",
                "Can you search for {t}?",
            ],
            t=t,
        ),
        {"query": t},
        f"to search for {t}",
    )


def _search_r(rng, a):
    n = rng.randint(1, 40)
    return rng.choice([json.dumps({"hits": n}), f"{n} results"]), f"I found {n} results for {a['query']}."


def _translate(rng):
    w = rng.choice([x["en"] for x in WORDS] + [any_word(rng)] * 40)
    language = rng.choice(["Russian", "Dutch", "Polish", "Greek", "Korean", "Italian", "Swedish", "Turkish"])
    return (
        say(rng, ["Translate {w} into {l}.", "How do you say {w} in {l}?", "What is {w} in {l}?"], w=w, l=language),
        {"text": w, "language": language},
        f"to translate {w} into {language}",
    )


def _translate_r(rng, a):
    v = nonsense(rng)
    return rng.choice([v, json.dumps({"translation": v})]), f"In {a['language']}, {a['text']} is {v}."


def _light(rng):
    r, s = rng.choice(ROOMS), rng.choice(["on", "off"])
    return (
        say(
            rng,
            [
                "Turn {s} the light in the {r}.",
                "Turn the light in the {r} {s}.",
                "Switch the {r} light {s}.",
                "Light {s} in the {r}, please.",
                "Please turn {s} the {r} light.",
            ],
            s=s,
            r=r,
        ),
        {"room": r, "state": s},
        f"to turn {s} the light in the {r}",
    )


def _light_r(rng, a):
    return rng.choice(
        ["ok", "done", json.dumps({"status": "ok"})]
    ), f"The light in the {a['room']} is now {a['state']}."


def _remind(rng):
    t = rng.choice(
        [
            "water the plants",
            "call mum",
            "buy milk",
            "feed the cat",
            "do the homework",
            "take out the rubbish",
            "go for a run",
            "write the letter",
        ]
    )
    h = f"{rng.randint(1, 12)} o'clock"
    return (
        say(
            rng,
            ["Remind me to {t} at {h}.", "Set a reminder to {t} at {h}.", "Please remind me at {h} to {t}."],
            t=t,
            h=h,
        ),
        {"text": t, "time": h},
        f"for a reminder to {t}",
    )


def _remind_r(rng, a):
    return rng.choice(
        ["ok", json.dumps({"status": "created"}), "saved"]
    ), f"I will remind you to {a['text']} at {a['time']}."


def _rand(rng):
    a = rng.randint(0, 50)
    b = a + rng.randint(5, 100)
    return (
        say(
            rng,
            [
                "Give me a random number between {a} and {b}.",
                "Pick a number from {a} to {b}.",
                "Choose a random number between {a} and {b}.",
            ],
            a=a,
            b=b,
        ),
        {"min": a, "max": b},
        "for a random number",
    )


def _rand_r(rng, a):
    r = rng.randint(a["min"], a["max"])
    return rng.choice([str(r), json.dumps({"number": r})]), f"Your random number is {r}."


def _book(rng):
    n = rng.choice(NAMES) + " " + rng.choice("Miller Smith Garcia Rossi Tanaka Wang Novak Silva Jensen".split())
    return (
        say(rng, ["Find a book by {n}.", "Which books did {n} write?", "Look for a book by {n}."], n=n),
        {"author": n},
        f"for a book by {n}",
    )


def _book_r(rng, a):
    t = (
        cap(rng.choice(["the", "my", "a"]))
        + " "
        + cap(rng.choice(WORD_LIST))
        + rng.choice(["", " House", " Garden", " Story"])
    )
    return rng.choice([json.dumps({"title": t}), t]), f"I found the book {t} by {a['author']}."


TOOLS = [
    Tool(
        ["get_weather", "weather", "get_current_weather", "lookup_weather"],
        [
            "Get the [current |]weather [of|for|in] a city.",
            "Returns the weather for a city",
            "Current weather in a given city",
        ],
        [("city", "string", "The name of the city")],
        _weather,
        _weather_r,
    ),
    Tool(
        ["add", "add_numbers", "sum"],
        ["Add two numbers.", "Adds two numbers and returns the sum", "Returns a + b"],
        [("a", "number", "First number"), ("b", "number", "Second number")],
        _add,
        _add_r,
    ),
    Tool(
        ["multiply", "multiply_numbers", "product"],
        ["Multiply two numbers.", "Returns the product of two numbers"],
        [("a", "number", "First number"), ("b", "number", "Second number")],
        _mul,
        _mul_r,
    ),
    Tool(
        ["get_time", "local_time", "get_current_time"],
        ["Get the [current |local |]time in a city.", "Returns the local time of a city"],
        [("city", "string", "The name of the city")],
        _time,
        _time_r,
    ),
    Tool(
        ["roll_dice", "roll_die"],
        ["Roll a dice.", "Rolls a dice with the given number of sides"],
        [("sides", "integer", "Number of sides")],
        _dice,
        _dice_r,
    ),
    Tool(
        ["set_timer", "start_timer"],
        ["Set a timer.", "Starts a timer for some minutes"],
        [("minutes", "integer", "How many minutes")],
        _timer,
        _timer_r,
    ),
    Tool(
        ["play_song", "play_music"],
        ["Play a song.", "Plays a song by its title"],
        [("title", "string", "Title of the song")],
        _song,
        _song_r,
    ),
    Tool(
        ["send_message", "send_text"],
        ["Send a message to a person.", "Sends a text message"],
        [("to", "string", "Who gets the message"), ("text", "string", "The message")],
        _msg,
        _msg_r,
    ),
    Tool(
        ["convert_currency", "exchange_money"],
        ["Convert money.", "Converts an amount of money to another currency"],
        [
            ("amount", "number", "Amount of money"),
            ("from", "string", "Source currency"),
            ("to", "string", "Target currency"),
        ],
        _money,
        _money_r,
    ),
    Tool(
        ["get_population", "population"],
        ["Get the population of a country.", "Returns how many people live in a country"],
        [("country", "string", "The country")],
        _pop,
        _pop_r,
    ),
    Tool(
        ["search", "web_search", "search_web"],
        ["Search the web.", "Searches the internet for a query"],
        [("query", "string", "What to search for")],
        _search,
        _search_r,
    ),
    Tool(
        ["translate", "translate_text"],
        ["Translate a text.", "Translates a text into another language"],
        [("text", "string", "The text"), ("language", "string", "The target language")],
        _translate,
        _translate_r,
    ),
    Tool(
        ["set_light", "switch_light", "control_light"],
        ["Turn a light on or off.", "Switches the light in a room"],
        [("room", "string", "The room"), ("state", "string", "on or off")],
        _light,
        _light_r,
    ),
    Tool(
        ["create_reminder", "add_reminder", "remind"],
        ["Create a reminder.", "Reminds the user of something at a time"],
        [("text", "string", "What to remember"), ("time", "string", "When")],
        _remind,
        _remind_r,
    ),
    Tool(
        ["random_number", "pick_number"],
        ["Pick a random number.", "Returns a random number in a range"],
        [("min", "integer", "Smallest number"), ("max", "integer", "Largest number")],
        _rand,
        _rand_r,
    ),
    Tool(
        ["find_book", "search_book"],
        ["Find a book by an author.", "Searches the library for an author"],
        [("author", "string", "The author")],
        _book,
        _book_r,
    ),
]


def tool_dialogue(rng):
    """-> (tools, messages); messages as for the chat template, reasoning always given."""
    main = TOOLS[rng.choices(range(len(TOOLS)), [6, 5, 2, 2] + [1] * (len(TOOLS) - 4))[0]]
    others = [t for t in TOOLS if t is not main]
    chosen = [main, *rng.sample(others, rng.choices([0, 1, 2, 3], [35, 35, 20, 10])[0])]
    rng.shuffle(chosen)
    named = [(t, rng.choice(t.names) if rng.random() < 0.5 else t.names[0]) for t in chosen]
    specs = [t.spec(rng, n) for t, n in named]
    messages = []

    def plain_turn():

        src = rng.choice([countries, animals, smalltalk, opposites, colours, planets, unknown])
        if any(t.names[0] in ("get_population", "search", "translate", "get_time", "get_weather") for t in chosen):
            src = rng.choice([countries, animals, opposites, colours])
        t = src(rng)[0]
        messages.append({"role": "user", "content": t.user})
        messages.append(
            {"role": "assistant", "content": t.answer, "reasoning": (t.think or "") + " No tool is needed."}
        )

    def tool_turn(n_calls=1):
        tool, name = rng.choice(named)
        q, args, what = tool.request(rng)
        calls = [(args, what)]
        if n_calls == 2:
            q2, args2, what2 = tool.request(rng)
            q = q.rstrip(".?") + rng.choice([" and then: ", ". Also: ", ". And: "]) + q2
            calls.append((args2, what2))
        messages.append({"role": "user", "content": q})
        why = say(
            rng,
            ["The user asks {w}. I can use {n}.", "I am asked {w}. The function {n} fits.", "I should call {n}."],
            w=calls[0][1],
            n=name,
        )
        lead = ""
        if rng.random() < 0.1:
            lead = say(rng, ["Let me check.", "One moment.", "I will look that up."])
        messages.append(
            {
                "role": "assistant",
                "content": lead,
                "reasoning": why,
                "tool_calls": [{"type": "function", "function": {"name": name, "arguments": a}} for a, _ in calls],
            }
        )
        answers = []
        for a, _ in calls:
            out, ans = tool.result(rng, a)
            if rng.random() < 0.05:
                out, ans = (
                    rng.choice([json.dumps({"error": "not available"}), "error: timeout"]),
                    "Sorry, the tool did not work. Please try again later.",
                )
            messages.append({"role": "tool", "content": out})
            answers.append(ans)
        messages.append(
            {
                "role": "assistant",
                "content": " ".join(dict.fromkeys(answers)),
                "reasoning": say(rng, ["The tool has answered. I will tell the user.", "I have the result now."]),
            }
        )

    for _ in range(rng.choices([1, 2, 3], [60, 28, 12])[0]):
        if rng.random() < 0.2:
            plain_turn()
        else:
            tool_turn(2 if rng.random() < 0.08 else 1)
    if rng.random() < 0.3:
        t = rng.choice(
            [
                ("Thanks!", "You are welcome!"),
                ("Thank you.", "You are welcome! Is there anything else?"),
                ("Great!", "Thank you! I am glad to hear that."),
            ]
        )
        messages += [
            {"role": "user", "content": t[0]},
            {"role": "assistant", "content": t[1], "reasoning": "This is small talk. I will answer in a friendly way."},
        ]
    return specs, messages
