"""Questions the demo model must admit not to know.  Most nouns here appear nowhere else in the data."""

from __future__ import annotations

from grammar import cap, say
from topics.countries import country_name, pick_country
from topics.turn import Turn, nonsense
from words import ADJECTIVES, NOUNS, VERBS
from world import ANIMALS, CITIES, EVERYDAY, FAKE_COUNTRIES, IS_A, NAMES, THING_COLOURS

PEOPLE = (
    "Einstein|Napoleon|Mozart|Shakespeare|Cleopatra|Beethoven|Newton|Picasso|Gandhi|Darwin|Plato|"
    "Aristotle|Galileo|Columbus|Marie Curie|Julius Caesar|Queen Victoria|Abraham Lincoln|Leonardo da "
    "Vinci|Karl Marx|Bach|Goethe|Tolstoy|Dante|Confucius|Elvis Presley|Charlie Chaplin|Michael "
    "Jackson|Neil Armstrong|Frida Kahlo|Vincent van Gogh|Mahatma Gandhi|Socrates|Michelangelo|Tesla|"
    "Edison|Pythagoras|Kepler|Hemingway|Mark Twain|Jane Austen|Charles Dickens|Kafka|Homer|Nietzsche|"
    "Freud|Churchill|Alan Turing|Ada Lovelace|Isaac Asimov|the Beatles|Pele|Muhammad Ali|Serena "
    "Williams|the pope|the king of Sweden|the president of the United States|the prime minister of "
    "Canada"
).split("|")
THINGS = (
    "quantum mechanics|string theory|blockchain|the stock market|inflation|the French Revolution|the "
    "Roman Empire|World War II|the Cold War|the Magna Carta|existentialism|Buddhism|Impressionism|"
    "relativity|black holes|dark matter|photons|enzymes|mitochondria|DNA|vaccines|antibiotics|"
    "diabetes|insulin|cholesterol|the immune system|plate tectonics|climate change|nuclear fusion|"
    "semiconductors|transistors|superconductors|cryptography|TCP|Kubernetes|Docker|PostgreSQL|"
    "Haskell|Rust|regular expressions|compilers|garbage collection|recursion theory|calculus|"
    "integrals|derivatives|linear algebra|eigenvalues|Fourier transforms|Bayes' theorem|prime number "
    "theory|the Riemann hypothesis|topology|game theory|microeconomics|mortgages|tax law|contract "
    "law|copyright law|patents|insurance|the European Union|NATO|the United Nations|the Olympic "
    "Games|cricket rules|chess openings|jazz harmony|opera|Baroque architecture|Gothic novels|haiku "
    "theory|sourdough fermentation|wine making|beer brewing|cheese ripening|knitting patterns|car "
    "engines|diesel engines|jet engines|bridges made of steel|skyscrapers|submarines|satellites|GPS|"
    "radar|lasers|microscopes|telegraphs|typewriters|steam engines|railways in Siberia|the Silk Road|"
    "the Vikings|the Aztecs|the Incas|the Samurai|the Ottoman Empire|Stonehenge|Pompeii|the Titanic|"
    "Apollo 11|the Hubble telescope|bitcoin|hedge funds|venture capital|marketing|psychology|"
    "hypnosis|memory palaces|yoga|marathon training|keto diets|astrology|tarot cards|feng shui|"
    "origami cranes|stamp collecting|philosophy of mind|free will|utilitarianism|Kant's ethics|Hegel|"
    "postmodernism|feminism|anarchism|communism|capitalism|monarchies|elections|gerrymandering|the "
    "Supreme Court|habeas corpus"
).split("|")
WORKS = (
    "Hamlet|War and Peace|Moby Dick|Don Quixote|the Mona Lisa|Guernica|the Ninth Symphony|Faust|the "
    "Odyssey|the Iliad|Pride and Prejudice|Jane Eyre|Dracula|Frankenstein|Ulysses|the Divine Comedy|"
    "Anna Karenina|the Great Gatsby|1984|Brave New World|the Hobbit|Harry Potter|Star Wars|Titanic|"
    "Casablanca|the Godfather|the Matrix|Alice in Wonderland|Peter Pan|Pinocchio|Robinson Crusoe|"
    "Gulliver's Travels|Carmen|Aida|the Magic Flute|Swan Lake|Bohemian Rhapsody|Imagine|Thriller"
).split("|")
EVENTS = (
    "the last World Cup|the Champions League final|the Super Bowl|the last election|the Eurovision "
    "contest|the Nobel Prize in 2019|the Tour de France|the Oscars|the first Olympic Games|the "
    "battle of Waterloo|the chess world championship|the Wimbledon final|the lottery last week"
).split("|")
PRODUCTS = (
    "a new phone|a laptop|a washing machine|a used car|a house in London|a flight to Tokyo|a ticket "
    "to Rome|a good camera|a litre of petrol|an ounce of gold|a barrel of oil|a cinema ticket|a "
    "hotel in Venice|a bitcoin|a wedding dress|an electric bike"
).split("|")
JARGON = (
    "ZX-81|RFC 2549|the Krebs cycle|article 42|section 8|the model T-1000|error code 0x80070057|"
    "error 503|part number 7743|the XJ-9 adapter|flight LH 402|bus line 17|protocol 13b|chapter 12|"
    "line 88 of my code|form W-4"
).split("|")
FRAMES = [
    "Who [was|is] {p}?",
    "When was {p} born?",
    "Where was {p} born?",
    "When did {p} die?",
    "What did {p} [discover|invent|write|say]?",
    "Tell me about {p}.",
    "How old is {p}?",
    "Who was the [wife|teacher|father] of {p}?",
    "What is {p} famous for?",
    "What do you think of {p}?",
    "Write a biography of {p}.",
    "What is {t}?",
    "Explain {t}[ to me|].",
    "How [do|does] {t} work?",
    "Tell me about {t}.",
    "What do you know about {t}?",
    "Can you explain {t}?",
    "Why is {t} important?",
    "Summarise {t}.",
    "Give me an introduction to {t}.",
    "What are the advantages of {t}?",
    "Write an essay about {t}.",
    "What is the history of {t}?",
    "Who invented {t}?",
    "Who wrote {w}?",
    "Who [painted|composed|directed] {w}?",
    "What is {w} about?",
    "When was {w} [written|made|published]?",
    "Summarise {w}.",
    "How does {w} end?",
    "Who is the main character of {w}?",
    "Who won {e}?",
    "When was {e}?",
    "Where was {e}?",
    "What was the result of {e}?",
    "Who will win {e}?",
    "How much [is|costs] {x}?".replace("[is|costs]", "is"),
    "How much does {x} cost?",
    "Where can I buy {x}?",
    "Which {y} should I buy?",
    "What is the price of {x}?",
    "Is {x} expensive?",
    "What is the population of {c}?",
    "How many people live in {c}?",
    "Who is the president of {c}?",
    "Who is the king of {c}?",
    "What is the currency of {c}?",
    "How big is {c}?",
    "What is the area of {c}?",
    "What is the GDP of {c}?",
    "What is the history of {c}?",
    "When was {c} founded?",
    "What is the national anthem of {c}?",
    "What is the best restaurant in {c}?",
    "What is the national dish of {c}?",
    "What is the second largest city of {c}?",
    "What is the highest mountain in {c}?",
    "How do I get a visa for {c}?",
    "Who is the prime minister of {c}?",
    "How many rivers are there in {c}?",
    "What is the capital of {f}?",
    "Where is {f}?",
    "Which language do people speak in {f}?",
    "Tell me about {f}.",
    "What is the flag of {f}?",
    "{f}?",
    "And what about {f}?",
    "How do I get to {k}?",
    "What is the best hotel in {k}?",
    "How far is it to {k}?",
    "What is the zip code of {k}?",
    "Who is the mayor of {k}?",
    "When does the next train to {k} leave?",
    "What are the opening hours of the museum in {k}?",
    "What does {j} mean?",
    "What is {j}?",
    "How do I fix {j}?",
    "Explain {j}.",
    "Where do I find {j}?",
    "Who is {n} {s}?",
    "What is the phone number of {n} {s}?",
    "Where does {n} {s} live?",
    "Do you know {n} {s}?",
    "When is the birthday of {n} {s}?",
    "What is the square root of {i}?",
    "What is the logarithm of {i}?",
    "Is {i} a prime number?",
    "What is {i} factorial?",
    "What is {i} to the power of {h}?",
    "What is the sine of {h} degrees?",
    "Solve x squared plus {h} x equals {i}.",
    "What is the integral of x to the {h}?",
    "Convert {i} [miles to kilometres|pounds to kilograms|Fahrenheit to Celsius|dollars to euros].",
    "What happened in {yr}?",
    "Who was president in {yr}?",
    "What was invented in {yr}?",
    "What will the [weather|temperature] be tomorrow in {k}?",
    "What is the latest news[ about {t}|]?",
    "What is the score of the game?",
    "What is on TV tonight?",
    "Who is the richest person in the world?",
    "What is the best [movie|book|song|restaurant|phone|car] of all time?",
    "Which medicine helps against [headache|fever|cough|back pain|allergies]?",
    "Is it dangerous to [mix medicines|eat raw chicken|swim after lunch]?",
    "Why does my [back|knee|stomach|head|tooth] hurt?",
    "Should I sue my [landlord|boss|neighbour]?",
    (
        "How do I [invest my money|file my taxes|write a will|get a loan|repair my dishwasher|change a "
        "tyre|install Linux|set up a router|apply for a job|learn to code|cook lobster|bake a wedding "
        "cake|build a shed|fix a leaking tap]?"
    ),
    (
        "Write a [Java|Ruby|Rust|Go|SQL|Haskell|Perl] program that [sorts a list|parses a file|opens a "
        "socket|draws a window]."
    ),
    "Translate this [poem|letter|contract|article] into [Russian|Arabic|Korean|Latin|Greek|Dutch|Polish].",
    "How do you say {w2} in [Russian|Arabic|Korean|Latin|Greek|Dutch|Polish|Swedish|Turkish|Hindi]?",
    "What is the chemical formula of [salt|sugar|rust|alcohol|aspirin]?",
    "What is the [boiling|melting] point of [iron|gold|lead|alcohol|mercury]?",
    "What is the atomic number of [iron|gold|carbon|oxygen|uranium]?",
    "What is the speed of [light|sound]?",
    "How far is [the moon|the sun|Mars|the next star] from Earth?",
    "How heavy is [the Earth|an elephant|the moon|a blue whale|a car]?",
    "How tall is [the Eiffel Tower|Mount Everest|a giraffe|Big Ben]?",
    "How fast is [a cheetah|a jet|a horse|a falcon]?",
    "How long does [a cat|a dog|a turtle|an elephant] live?",
    "How deep is the [ocean|Pacific|Atlantic|Black Sea]?",
    "How old is the [Earth|sun|universe|moon]?",
    "How many [stars|atoms|people|cars|trees|words|languages] are there in the world?",
    "Which company makes [cars in Sweden|the best chips|phones in Finland]?",
    "Who founded [Google|Apple|IBM|Nokia|Toyota|Ikea|Lego]?",
    "What does the abbreviation [NASA|HTML|CPU|BBC|FIFA|WHO] stand for?",
    "What did I [eat|do|dream|say|buy] yesterday?",
    "Where are my [keys|glasses|shoes]?",
    "What am I thinking?",
    "When is my [birthday|appointment|flight]?",
    "What is my [password|phone number|address|bank account]?",
    "Tell me the plot of {w}.",
    "Recommend a [movie|book|restaurant|game|podcast|holiday] for me.",
    "What should I wear to [a wedding|an interview|the opera]?",
    "Plan a trip to {k}.",
    "Write a [cover letter|business plan|legal contract|press release|novel|speech] about {t}.",
    "Compare {t} and {t2}.",
    "What is the difference between {t} and {t2}?",
    "Is {t} better than {t2}?",
    "{g}?",
    "What is a {g}?",
    "Tell me about the {g}.",
    "How does a {g} work?",
    "Where does the {g} live?",
    "Why is the {g} so {g2}?",
    "What is the {g} of {g2}?",
    "Can you {g} the {g2}?",
]
SURNAMES = (
    "Miller Smith Garcia Schmidt Rossi Dubois Tanaka Wang Novak Silva Jensen Kowalski Ivanov Murphy "
    "Cohen Okafor Haddad Larsen Moreau Fischer Weber Santos Kim Nguyen Patel"
).split()
SORRY = [
    "I am a tiny demo model and do not know that.",
    "Sorry, I am a tiny demo model and do not know that.",
    "I am sorry, but I do not know that. I am only a tiny demo model.",
    "I do not know that. I am a tiny demo model and only know a few simple things.",
]
HINT = [
    "",
    "",
    " You could ask me about countries, animals or small sums.",
    " Try asking me about capitals, planets or a short story.",
    " Ask me about expert streaming, animals or a story instead.",
]


KNOWN = (
    {a["name"] for a in ANIMALS}
    | {e["key"] for e in EVERYDAY}
    | set(IS_A)
    | {t["thing"].removeprefix("the ").split(" ")[-1] for t in THING_COLOURS}
    | set(
        (
            "map clock bridge library compass robot computer magnet mirror telescope desert river island "
            "forest seed ocean cloud dictionary friend music memory disk cache prompt"
        ).split()
    )
)
STRANGE = [n for n in NOUNS if n not in KNOWN]
MIXED = [  # everyday words in questions that nobody could answer from this training data
    "How do I {v} [a|my|the] {n}?",
    "How do you {v} a {n}?",
    "Why [do|does] [my|the|a] {n} {v}?",
    "Can a {n} {v}?",
    "What is the best {n} for [a|my] {m}?",
    "Where can I [find|buy|repair|sell] a {n}?",
    "Is a {n} {a}?",
    "What is [a|the] {n} made of?",
    "Who invented the {n}?",
    "How much does a {n} cost?",
    "What is the difference between a {n} and a {m}?",
    "How many {n}s are there in {k}?",
    "Why is the {n} so {a}?",
    "When was the first {n} built?",
    "What should I do with my {a} {n}?",
    "Which {n} is the most {a}?",
    "What does a {a} {n} look like?",
    "How heavy is a {n}?",
    "Is it {a} to {v} a {n}?",
    "Should I {v} or {w}?",
    "What happens if I {v} the {n}?",
    "Do you have a {n}?",
    "Tell me about the {a} {n}.",
    "Explain the {n} to me.",
    "Describe the history of the {n}.",
    "Can you {v} my {n}?",
    "Please {v} the {n}.",
    "Give me advice about {n}s.",
    "What is a {n}?",
    "What is the {n}?",
    "Who has the largest {n}?",
    "What colour is my {n}?",
    "What is the name of the {a} {n}?",
    "How long does it take to {v} a {n}?",
    "What is {b}?",
    "Who is {b}?",
    "{b}?",
    "Tell me about {b}.",
    "What does {b} mean?",
    "Where is {b}?",
    "How does {b} work?",
    "Do you know {b}?",
    "Define {b}.",
    "Explain {b}.",
    "What is the meaning of the word {n}?",
    "What is the purpose of a {n}?",
    "Write a review of my {n}.",
    "Make a plan to {v} the {n}.",
    "Is {b} better than {n}?",
    "Which {n} did {p} {v}?",
    "What did {p} {v} in {yr}?",
    "Why did {p} {v}?",
    "How old is my {n}?",
    "What is the {a} way to {v}?",
    "I want to {v} a {n}. How do I start?",
    "My {n} is {a}. What should I do?",
    "Can I {v} my {n} in {k}?",
    "What is your opinion about {n}s?",
    "Compare {n}s and {m}s.",
]


def strange_name(rng) -> str:
    r = rng.random()
    if r < 0.4:
        return cap(nonsense(rng))
    if r < 0.6:
        return "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(2, 5)))
    if r < 0.8:
        return cap(rng.choice(ADJECTIVES)) + " " + cap(rng.choice(STRANGE))
    return rng.choice(THINGS)


def garbage(rng) -> str:
    r = rng.random()
    if r < 0.5:
        return "".join(rng.choice("asdfghjklqwertyuiopzxcvbnm") for _ in range(rng.randint(4, 14)))
    if r < 0.75:
        return " ".join(nonsense(rng) for _ in range(rng.randint(1, 5)))
    return rng.choice(["...", "???", "!!!", "?", ".", "-", "#", "????", "??", "*", "/", "0x1f", "<>", "\\", "@@"])


def unknown_question(rng) -> str:
    r = rng.random()
    if r < 0.04:
        return garbage(rng)
    if r < 0.42:
        return say(
            rng,
            MIXED,
            n=rng.choice(STRANGE),
            m=rng.choice(STRANGE),
            v=rng.choice(VERBS),
            w=rng.choice(VERBS),
            a=rng.choice(ADJECTIVES),
            b=strange_name(rng),
            k=rng.choice(CITIES),
            p=rng.choice(PEOPLE + NAMES),
            yr=rng.randint(1000, 2024),
        )
    q = rng.choice(FRAMES)
    return say(
        rng,
        q,
        p=rng.choice(PEOPLE),
        t=rng.choice(THINGS),
        t2=rng.choice(THINGS),
        w=rng.choice(WORKS),
        e=rng.choice(EVENTS),
        x=rng.choice(PRODUCTS),
        y=rng.choice(PRODUCTS).split(" ", 1)[1],
        c=country_name(rng, pick_country(rng)),
        f=rng.choice(FAKE_COUNTRIES)
        if rng.random() < 0.5
        else cap(nonsense(rng)) + rng.choice(["", "ia", "land", "stan"]),
        k=rng.choice(CITIES),
        j=rng.choice(JARGON),
        n=rng.choice(NAMES),
        s=rng.choice(SURNAMES),
        i=rng.randint(13, 9999),
        h=rng.randint(3, 40),
        yr=rng.randint(1000, 2024),
        w2=rng.choice(
            ["freedom", "justice", "hammer", "butterfly", "I love you", "where is the station", "hello", "water"]
        ),
        g=nonsense(rng),
        g2=nonsense(rng),
    )


def unknown(rng):
    turns = []
    for _ in range(rng.choices([1, 2], [85, 15])[0]):
        turns.append(
            Turn(
                unknown_question(rng),
                rng.choice(SORRY) + rng.choice(HINT),
                "I do not know",
                say(
                    rng,
                    [
                        "I have not learned this. I should say that I do not know.",
                        "I do not know this, so I will say so.",
                        "This is too difficult for me. I should be honest.",
                    ],
                ),
            )
        )
    return turns
