"""The facts the demo model is taught.  Everything here is general knowledge, written by hand."""

from __future__ import annotations


def table(text: str, *fields: str) -> list[dict]:
    rows = []
    for line in text.strip().splitlines():
        cells = [c.strip() for c in line.split("|")]
        assert len(cells) == len(fields), (line, fields)
        rows.append(dict(zip(fields, cells, strict=True)))
    return rows


def flag(iso: str) -> str:
    return "".join(chr(0x1F1E6 + ord(c) - 65) for c in iso)


# name | ISO code | capital | continent | main languages | people
COUNTRIES = table(
    """
Afghanistan|AF|Kabul|Asia|Dari and Pashto|Afghans
Albania|AL|Tirana|Europe|Albanian|Albanians
Algeria|DZ|Algiers|Africa|Arabic and Tamazight|Algerians
Andorra|AD|Andorra la Vella|Europe|Catalan|Andorrans
Angola|AO|Luanda|Africa|Portuguese|Angolans
Argentina|AR|Buenos Aires|South America|Spanish|Argentinians
Armenia|AM|Yerevan|Asia|Armenian|Armenians
Australia|AU|Canberra|Oceania|English|Australians
Austria|AT|Vienna|Europe|German|Austrians
Azerbaijan|AZ|Baku|Asia|Azerbaijani|Azerbaijanis
the Bahamas|BS|Nassau|North America|English|Bahamians
Bahrain|BH|Manama|Asia|Arabic|Bahrainis
Bangladesh|BD|Dhaka|Asia|Bengali|Bangladeshis
Barbados|BB|Bridgetown|North America|English|Barbadians
Belarus|BY|Minsk|Europe|Belarusian and Russian|Belarusians
Belgium|BE|Brussels|Europe|Dutch, French and German|Belgians
Belize|BZ|Belmopan|North America|English|Belizeans
Benin|BJ|Porto-Novo|Africa|French|Beninese
Bhutan|BT|Thimphu|Asia|Dzongkha|Bhutanese
Bolivia|BO|Sucre|South America|Spanish and Quechua|Bolivians
Botswana|BW|Gaborone|Africa|English and Tswana|Batswana
Brazil|BR|Brasilia|South America|Portuguese|Brazilians
Brunei|BN|Bandar Seri Begawan|Asia|Malay|Bruneians
Bulgaria|BG|Sofia|Europe|Bulgarian|Bulgarians
Burkina Faso|BF|Ouagadougou|Africa|French and Mossi|Burkinabe
Burundi|BI|Gitega|Africa|Kirundi and French|Burundians
Cambodia|KH|Phnom Penh|Asia|Khmer|Cambodians
Cameroon|CM|Yaounde|Africa|French and English|Cameroonians
Canada|CA|Ottawa|North America|English and French|Canadians
Chad|TD|N'Djamena|Africa|French and Arabic|Chadians
Chile|CL|Santiago|South America|Spanish|Chileans
China|CN|Beijing|Asia|Chinese|Chinese people
Colombia|CO|Bogota|South America|Spanish|Colombians
Costa Rica|CR|San Jose|North America|Spanish|Costa Ricans
Croatia|HR|Zagreb|Europe|Croatian|Croatians
Cuba|CU|Havana|North America|Spanish|Cubans
Cyprus|CY|Nicosia|Europe|Greek and Turkish|Cypriots
the Czech Republic|CZ|Prague|Europe|Czech|Czechs
Denmark|DK|Copenhagen|Europe|Danish|Danes
Djibouti|DJ|Djibouti City|Africa|French and Arabic|Djiboutians
the Dominican Republic|DO|Santo Domingo|North America|Spanish|Dominicans
Ecuador|EC|Quito|South America|Spanish|Ecuadorians
Egypt|EG|Cairo|Africa|Arabic|Egyptians
El Salvador|SV|San Salvador|North America|Spanish|Salvadorans
Eritrea|ER|Asmara|Africa|Tigrinya and Arabic|Eritreans
Estonia|EE|Tallinn|Europe|Estonian|Estonians
Ethiopia|ET|Addis Ababa|Africa|Amharic|Ethiopians
Fiji|FJ|Suva|Oceania|English and Fijian|Fijians
Finland|FI|Helsinki|Europe|Finnish and Swedish|Finns
France|FR|Paris|Europe|French|French people
Gabon|GA|Libreville|Africa|French|Gabonese
the Gambia|GM|Banjul|Africa|English|Gambians
Georgia|GE|Tbilisi|Asia|Georgian|Georgians
Germany|DE|Berlin|Europe|German|Germans
Ghana|GH|Accra|Africa|English|Ghanaians
Greece|GR|Athens|Europe|Greek|Greeks
Guatemala|GT|Guatemala City|North America|Spanish|Guatemalans
Guinea|GN|Conakry|Africa|French|Guineans
Guyana|GY|Georgetown|South America|English|Guyanese
Haiti|HT|Port-au-Prince|North America|Haitian Creole and French|Haitians
Honduras|HN|Tegucigalpa|North America|Spanish|Hondurans
Hungary|HU|Budapest|Europe|Hungarian|Hungarians
Iceland|IS|Reykjavik|Europe|Icelandic|Icelanders
India|IN|New Delhi|Asia|Hindi and English|Indians
Indonesia|ID|Jakarta|Asia|Indonesian|Indonesians
Iran|IR|Tehran|Asia|Persian|Iranians
Iraq|IQ|Baghdad|Asia|Arabic and Kurdish|Iraqis
Ireland|IE|Dublin|Europe|English and Irish|Irish people
Israel|IL|Jerusalem|Asia|Hebrew|Israelis
Italy|IT|Rome|Europe|Italian|Italians
Jamaica|JM|Kingston|North America|English|Jamaicans
Japan|JP|Tokyo|Asia|Japanese|Japanese people
Jordan|JO|Amman|Asia|Arabic|Jordanians
Kazakhstan|KZ|Astana|Asia|Kazakh and Russian|Kazakhs
Kenya|KE|Nairobi|Africa|Swahili and English|Kenyans
Kuwait|KW|Kuwait City|Asia|Arabic|Kuwaitis
Kyrgyzstan|KG|Bishkek|Asia|Kyrgyz and Russian|Kyrgyz people
Laos|LA|Vientiane|Asia|Lao|Laotians
Latvia|LV|Riga|Europe|Latvian|Latvians
Lebanon|LB|Beirut|Asia|Arabic|Lebanese people
Lesotho|LS|Maseru|Africa|Sesotho and English|Basotho
Liberia|LR|Monrovia|Africa|English|Liberians
Libya|LY|Tripoli|Africa|Arabic|Libyans
Liechtenstein|LI|Vaduz|Europe|German|Liechtensteiners
Lithuania|LT|Vilnius|Europe|Lithuanian|Lithuanians
Luxembourg|LU|Luxembourg City|Europe|Luxembourgish, French and German|Luxembourgers
Madagascar|MG|Antananarivo|Africa|Malagasy and French|Malagasy people
Malawi|MW|Lilongwe|Africa|English and Chichewa|Malawians
Malaysia|MY|Kuala Lumpur|Asia|Malay|Malaysians
the Maldives|MV|Male|Asia|Dhivehi|Maldivians
Mali|ML|Bamako|Africa|Bambara|Malians
Malta|MT|Valletta|Europe|Maltese and English|Maltese people
Mauritania|MR|Nouakchott|Africa|Arabic|Mauritanians
Mauritius|MU|Port Louis|Africa|English and French|Mauritians
Mexico|MX|Mexico City|North America|Spanish|Mexicans
Moldova|MD|Chisinau|Europe|Romanian|Moldovans
Monaco|MC|Monaco|Europe|French|Monegasques
Mongolia|MN|Ulaanbaatar|Asia|Mongolian|Mongolians
Montenegro|ME|Podgorica|Europe|Montenegrin|Montenegrins
Morocco|MA|Rabat|Africa|Arabic and Tamazight|Moroccans
Mozambique|MZ|Maputo|Africa|Portuguese|Mozambicans
Myanmar|MM|Naypyidaw|Asia|Burmese|people from Myanmar
Namibia|NA|Windhoek|Africa|English|Namibians
Nepal|NP|Kathmandu|Asia|Nepali|Nepalis
the Netherlands|NL|Amsterdam|Europe|Dutch|Dutch people
New Zealand|NZ|Wellington|Oceania|English and Maori|New Zealanders
Nicaragua|NI|Managua|North America|Spanish|Nicaraguans
Niger|NE|Niamey|Africa|French and Hausa|Nigeriens
Nigeria|NG|Abuja|Africa|English|Nigerians
North Korea|KP|Pyongyang|Asia|Korean|North Koreans
North Macedonia|MK|Skopje|Europe|Macedonian and Albanian|Macedonians
Norway|NO|Oslo|Europe|Norwegian|Norwegians
Oman|OM|Muscat|Asia|Arabic|Omanis
Pakistan|PK|Islamabad|Asia|Urdu and English|Pakistanis
Panama|PA|Panama City|North America|Spanish|Panamanians
Papua New Guinea|PG|Port Moresby|Oceania|Tok Pisin and English|Papua New Guineans
Paraguay|PY|Asuncion|South America|Spanish and Guarani|Paraguayans
Peru|PE|Lima|South America|Spanish and Quechua|Peruvians
the Philippines|PH|Manila|Asia|Filipino and English|Filipinos
Poland|PL|Warsaw|Europe|Polish|Poles
Portugal|PT|Lisbon|Europe|Portuguese|Portuguese people
Qatar|QA|Doha|Asia|Arabic|Qataris
Romania|RO|Bucharest|Europe|Romanian|Romanians
Russia|RU|Moscow|Europe and Asia|Russian|Russians
Rwanda|RW|Kigali|Africa|Kinyarwanda and English|Rwandans
Samoa|WS|Apia|Oceania|Samoan and English|Samoans
San Marino|SM|San Marino|Europe|Italian|Sammarinese
Saudi Arabia|SA|Riyadh|Asia|Arabic|Saudis
Senegal|SN|Dakar|Africa|French and Wolof|Senegalese people
Serbia|RS|Belgrade|Europe|Serbian|Serbs
Sierra Leone|SL|Freetown|Africa|English|Sierra Leoneans
Singapore|SG|Singapore|Asia|English, Malay, Mandarin and Tamil|Singaporeans
Slovakia|SK|Bratislava|Europe|Slovak|Slovaks
Slovenia|SI|Ljubljana|Europe|Slovene|Slovenes
Somalia|SO|Mogadishu|Africa|Somali and Arabic|Somalis
South Africa|ZA|Pretoria|Africa|Zulu, Xhosa, Afrikaans and English|South Africans
South Korea|KR|Seoul|Asia|Korean|South Koreans
Spain|ES|Madrid|Europe|Spanish|Spaniards
Sri Lanka|LK|Sri Jayawardenepura Kotte|Asia|Sinhala and Tamil|Sri Lankans
Sudan|SD|Khartoum|Africa|Arabic and English|Sudanese people
Suriname|SR|Paramaribo|South America|Dutch|Surinamese people
Sweden|SE|Stockholm|Europe|Swedish|Swedes
Switzerland|CH|Bern|Europe|German, French, Italian and Romansh|Swiss people
Syria|SY|Damascus|Asia|Arabic|Syrians
Taiwan|TW|Taipei|Asia|Mandarin|Taiwanese people
Tajikistan|TJ|Dushanbe|Asia|Tajik|Tajiks
Tanzania|TZ|Dodoma|Africa|Swahili and English|Tanzanians
Thailand|TH|Bangkok|Asia|Thai|Thais
Togo|TG|Lome|Africa|French|Togolese people
Trinidad and Tobago|TT|Port of Spain|North America|English|people from Trinidad and Tobago
Tunisia|TN|Tunis|Africa|Arabic|Tunisians
Turkey|TR|Ankara|Asia and Europe|Turkish|Turks
Turkmenistan|TM|Ashgabat|Asia|Turkmen|Turkmens
Uganda|UG|Kampala|Africa|English and Swahili|Ugandans
Ukraine|UA|Kyiv|Europe|Ukrainian|Ukrainians
the United Arab Emirates|AE|Abu Dhabi|Asia|Arabic|Emiratis
the United Kingdom|GB|London|Europe|English|British people
the United States|US|Washington, D.C.|North America|English|Americans
Uruguay|UY|Montevideo|South America|Spanish|Uruguayans
Uzbekistan|UZ|Tashkent|Asia|Uzbek|Uzbeks
Venezuela|VE|Caracas|South America|Spanish|Venezuelans
Vietnam|VN|Hanoi|Asia|Vietnamese|Vietnamese people
Yemen|YE|Sana'a|Asia|Arabic|Yemenis
Zambia|ZM|Lusaka|Africa|English|Zambians
Zimbabwe|ZW|Harare|Africa|English, Shona and Ndebele|Zimbabweans
""",
    "name",
    "iso",
    "capital",
    "continent",
    "languages",
    "people",
)
FAMOUS = [
    *"Spain France Germany Italy Portugal Japan China India Brazil Canada Mexico Egypt Greece Norway "
    "Sweden Poland Australia Russia Turkey Kenya Ireland Austria Argentina Peru Chile Cuba Finland "
    "Denmark Belgium Thailand Vietnam Morocco".split(),
    "the United States",
    "the United Kingdom",
    "the Netherlands",
    "South Korea",
    "New Zealand",
]
ALIASES = {
    "the United States": ["the USA", "the US", "America"],
    "the United Kingdom": ["the UK", "Great Britain"],
    "the Netherlands": ["Holland"],
    "the Czech Republic": ["Czechia"],
    "the United Arab Emirates": ["the UAE"],
}
CITY_FACTS = {
    "Paris": "the Eiffel Tower",
    "London": "Big Ben",
    "Rome": "the Colosseum",
    "Athens": "the Acropolis",
    "Cairo": "the pyramids nearby",
    "Madrid": "the Prado museum",
    "Berlin": "the Brandenburg Gate",
    "Moscow": "the Red Square",
    "Beijing": "the Forbidden City",
    "Vienna": "its music and palaces",
    "Amsterdam": "its canals",
    "Lisbon": "its yellow trams",
    "Copenhagen": "the Little Mermaid statue",
    "Brussels": "the Atomium",
    "Prague": "the Charles Bridge",
    "Bern": "its old town",
    "Tokyo": "its busy streets",
}
FAKE_COUNTRIES = """Atlantis Narnia Wakanda Gondor Zamunda Freedonia Elbonia Genovia Ruritania Lilliput Utopia
Oz Neverland Mordor Sylvania Latveria Arendelle Brobdingnag Krakozhia Molvania Tralfamadore Zubrowka Florin
Grand Fenwick Borduria Syldavia Panem Westeros Agrabah Bedrock Hyrule Dinotopia Kyrat Zembla""".split()

# name | plural | kind | baby | sound | food | home | legs | fact | fact
ANIMALS = table(
    """
dog|dogs|mammal|puppy|barks|meat and dog food|with people in houses|4|Dogs have a very good sense of smell.|Dogs are loyal friends of people.
cat|cats|mammal|kitten|meows|meat, fish and mice|with people in houses|4|Cats can see very well in the dark.|Cats sleep for more than half of the day.
cow|cows|mammal|calf|moos|grass and hay|on farms|4|Cows give us milk.|A cow has one stomach with four parts.
horse|horses|mammal|foal|neighs|grass, hay and oats|on farms and in grasslands|4|Horses can sleep standing up.|People have ridden horses for thousands of years.
pig|pigs|mammal|piglet|oinks|almost everything|on farms|4|Pigs are very clever animals.|Pigs roll in mud to stay cool.
sheep|sheep|mammal|lamb|bleats|grass|on farms and hills|4|Sheep give us wool.|Sheep like to stay together in a flock.
goat|goats|mammal|kid|bleats|grass, leaves and twigs|on farms and in mountains|4|Goats are very good climbers.|Goats give us milk and cheese.
rabbit|rabbits|mammal|kit|squeaks softly|grass and vegetables|in burrows under the ground|4|Rabbits have long ears and can hear very well.|Rabbits hop with their strong back legs.
mouse|mice|mammal|pup|squeaks|seeds, grain and cheese|in fields, holes and houses|4|Mice are small and very quick.|A mouse has a long thin tail.
lion|lions|mammal|cub|roars|meat|in the savannas of Africa|4|The lion is called the king of the animals.|A group of lions is called a pride.
tiger|tigers|mammal|cub|roars|meat|in the forests of Asia|4|The tiger is the biggest cat in the world.|Tigers have stripes and like to swim.
elephant|elephants|mammal|calf|trumpets|grass, leaves and fruit|in Africa and Asia|4|The elephant is the largest animal on land.|Elephants use their trunk to drink and to grab things.
giraffe|giraffes|mammal|calf|hums|leaves of tall trees|in the savannas of Africa|4|The giraffe is the tallest animal in the world.|Giraffes have a very long neck.
zebra|zebras|mammal|foal|barks and brays|grass|in the savannas of Africa|4|Zebras have black and white stripes.|Every zebra has its own pattern of stripes.
hippo|hippos|mammal|calf|grunts|grass|in rivers and lakes of Africa|4|Hippos spend most of the day in the water.|A hippo can open its mouth very wide.
bear|bears|mammal|cub|growls|berries, fish and honey|in forests and mountains|4|Many bears sleep through the winter.|Bears can stand on their back legs.
polar bear|polar bears|mammal|cub|growls|seals|in the Arctic|4|Polar bears have white fur and black skin.|Polar bears are excellent swimmers.
wolf|wolves|mammal|pup|howls|meat|in forests and mountains|4|Wolves live and hunt in packs.|The dog comes from the wolf.
fox|foxes|mammal|cub|barks|mice, berries and insects|in forests and fields|4|Foxes have a bushy tail.|In stories the fox is often clever.
monkey|monkeys|mammal|infant|chatters|fruit, leaves and insects|in warm forests|4|Monkeys are good climbers.|Most monkeys have a long tail.
kangaroo|kangaroos|mammal|joey|chuckles softly|grass|in Australia|4|A kangaroo carries its baby in a pouch.|Kangaroos move by hopping.
koala|koalas|mammal|joey|bellows|eucalyptus leaves|in trees in Australia|4|Koalas sleep up to twenty hours a day.|A koala is not a bear.
panda|pandas|mammal|cub|bleats|bamboo|in the mountains of China|4|Pandas are black and white.|Pandas eat bamboo almost all day long.
bat|bats|mammal|pup|squeaks|insects or fruit|in caves and old trees|2|Bats are the only mammals that can really fly.|Bats use echoes to find their way in the dark.
whale|whales|mammal|calf|sings|krill and fish|in the sea|0|The blue whale is the largest animal that has ever lived.|A whale is a mammal and breathes air.
dolphin|dolphins|mammal|calf|clicks and whistles|fish|in the sea|0|Dolphins are very clever and playful.|A dolphin is a mammal, not a fish.
seal|seals|mammal|pup|barks|fish|on coasts and in cold seas|0|Seals have thick fat that keeps them warm.|Seals swim with flippers.
hedgehog|hedgehogs|mammal|hoglet|snuffles|insects, worms and snails|in gardens and woods|4|A hedgehog rolls up into a ball when it is afraid.|Hedgehogs have thousands of spines.
squirrel|squirrels|mammal|kit|chatters|nuts and seeds|in trees|4|Squirrels hide nuts for the winter.|A squirrel has a big bushy tail.
beaver|beavers|mammal|kit|slaps its tail on the water|bark and plants|in rivers and ponds|4|Beavers build dams from branches.|Beavers have strong orange teeth.
camel|camels|mammal|calf|grunts|grass and thorny plants|in deserts|4|Camels store fat in their humps.|A camel can live for many days without water.
deer|deer|mammal|fawn|bellows|grass and leaves|in forests|4|Male deer grow antlers.|Deer can run very fast.
chicken|chickens|bird|chick|clucks|seeds and insects|on farms|2|Hens lay eggs.|The male chicken is called a rooster.
duck|ducks|bird|duckling|quacks|plants, insects and snails|on ponds and lakes|2|Ducks have webbed feet.|The feathers of a duck keep out the water.
goose|geese|bird|gosling|honks|grass and grain|near lakes and on farms|2|Geese fly in the shape of a V.|Geese can be good guards of a farm.
owl|owls|bird|owlet|hoots|mice and insects|in forests and barns|2|Owls hunt at night.|An owl can turn its head very far around.
eagle|eagles|bird|eaglet|screams|fish and small animals|in mountains and near lakes|2|Eagles have very sharp eyes.|Eagles build big nests called eyries.
penguin|penguins|bird|chick|squawks|fish and krill|in the cold south of the world|2|Penguins cannot fly, but they swim very well.|Penguins keep their eggs warm on their feet.
parrot|parrots|bird|chick|squawks|seeds, nuts and fruit|in warm forests|2|Some parrots can copy human words.|Parrots have strong curved beaks.
swan|swans|bird|cygnet|hisses|water plants|on lakes and rivers|2|Swans are big white birds with a long neck.|A pair of swans often stays together for life.
robin|robins|bird|chick|sings|insects, worms and berries|in gardens and woods|2|The robin has a red breast.|Robins sing even in winter.
sparrow|sparrows|bird|chick|chirps|seeds and insects|near people in towns and on farms|2|Sparrows like to live in groups.|A sparrow is a small brown bird.
swallow|swallows|bird|chick|twitters|flying insects|in barns and open country|2|Swallows fly to Africa for the winter.|Swallows build nests of mud.
swift|swifts|bird|chick|screams|flying insects|in the air and under roofs|2|Swifts can sleep while they fly.|Swifts almost never land on the ground.
swiftlet|swiftlets|bird|chick|clicks and chirps|flying insects|in caves in Asia and Australia|2|Swiftlets are small, fast birds of the swift family.|Some swiftlets build their nests from saliva and find their way in dark caves by echoes.
fieldfare|fieldfares|bird|chick|chatters|berries, worms and insects|in northern Europe and Asia, and further south in winter|2|The fieldfare is a large thrush with a grey head and a speckled breast.|Fieldfares like to travel in big flocks and love apples left in winter gardens.
blackbird|blackbirds|bird|chick|sings|worms, insects and berries|in gardens and woods|2|The male blackbird is black with a yellow beak.|Blackbirds sing beautifully in the evening.
hummingbird|hummingbirds|bird|chick|chirps|nectar and tiny insects|in the Americas|2|Hummingbirds can fly backwards.|The bee hummingbird is the smallest bird in the world.
ostrich|ostriches|bird|chick|booms|plants and seeds|in Africa|2|The ostrich is the largest bird in the world.|Ostriches cannot fly, but they run very fast.
flamingo|flamingos|bird|chick|honks|shrimp and algae|in shallow lakes|2|Flamingos are pink because of their food.|Flamingos often stand on one leg.
woodpecker|woodpeckers|bird|chick|drums on trees|insects and nuts|in forests|2|Woodpeckers make holes in trees with their beak.|A woodpecker has a very long tongue.
crow|crows|bird|chick|caws|almost everything|in fields and towns|2|Crows are among the cleverest birds.|Crows can use small sticks as tools.
shark|sharks|fish|pup|makes no sound|fish and other sea animals|in the sea|0|Sharks grow new teeth all their life.|The whale shark is the biggest fish in the world.
salmon|salmon|fish|fry|makes no sound|small fish and insects|in rivers and in the sea|0|Salmon swim back to the river where they were born.|Salmon can jump over small waterfalls.
goldfish|goldfish|fish|fry|makes no sound|flakes and small plants|in ponds and tanks|0|Goldfish are popular pets.|Goldfish are a kind of carp.
seahorse|seahorses|fish|fry|clicks|tiny sea animals|in warm shallow seas|0|The father seahorse carries the eggs.|A seahorse holds on to plants with its tail.
frog|frogs|amphibian|tadpole|croaks|insects and worms|in ponds and wet meadows|4|Frogs start their life as tadpoles in the water.|Frogs catch insects with a long sticky tongue.
snake|snakes|reptile|snakelet|hisses|mice, frogs and eggs|in many warm places|0|Snakes smell with their tongue.|Snakes shed their skin when they grow.
turtle|turtles|reptile|hatchling|hisses softly|plants, fish and jellyfish|in the sea, in ponds and on land|4|Turtles carry a hard shell.|Some turtles live for more than a hundred years.
crocodile|crocodiles|reptile|hatchling|growls|fish and other animals|in warm rivers|4|Crocodiles have very strong jaws.|Crocodiles have lived on Earth since the time of the dinosaurs.
lizard|lizards|reptile|hatchling|makes almost no sound|insects|in warm and sunny places|4|Some lizards can drop their tail to escape.|Lizards like to lie in the sun.
bee|bees|insect|larva|buzzes|nectar and pollen|in hives|6|Bees make honey.|Bees dance to show each other where the flowers are.
ant|ants|insect|larva|makes almost no sound|seeds, insects and sweet things|in nests under the ground|6|Ants can carry things much heavier than themselves.|Ants live together in big colonies.
butterfly|butterflies|insect|caterpillar|makes no sound|nectar|in gardens and meadows|6|A butterfly starts its life as a caterpillar.|Butterflies taste with their feet.
ladybird|ladybirds|insect|larva|makes no sound|small insects called aphids|in gardens|6|Ladybirds are red with black spots.|Gardeners like ladybirds because they eat aphids.
mosquito|mosquitoes|insect|larva|hums|nectar, and the females also blood|near still water|6|Only female mosquitoes bite.|Mosquitoes lay their eggs in water.
spider|spiders|arachnid|spiderling|makes no sound|insects|in webs and dark corners|8|Spiders have eight legs.|Spider silk is very strong.
octopus|octopuses|mollusc|hatchling|makes no sound|crabs and shellfish|in the sea|8|An octopus has three hearts.|An octopus can change its colour.
snail|snails|mollusc|hatchling|makes no sound|leaves and plants|in gardens and woods|0|A snail carries its house on its back.|Snails are very slow.
crab|crabs|crustacean|larva|clicks|algae and small animals|on beaches and in the sea|10|Crabs walk sideways.|Crabs have two big claws.
""",
    "name",
    "plural",
    "kind",
    "baby",
    "sound",
    "food",
    "home",
    "legs",
    "fact1",
    "fact2",
)
KIND_NOTE = {
    "mammal": "feeds its babies with milk",
    "bird": "has feathers and lays eggs",
    "fish": "lives in water and breathes with gills",
    "insect": "has six legs",
    "reptile": "has scaly skin and likes warmth",
    "amphibian": "lives both in water and on land",
    "arachnid": "has eight legs",
    "mollusc": "has a soft body",
    "crustacean": "has a hard shell",
}
GROUPS = {
    "lions": "a pride",
    "wolves": "a pack",
    "sheep": "a flock",
    "birds": "a flock",
    "fish": "a school",
    "cows": "a herd",
    "elephants": "a herd",
    "bees": "a swarm",
    "crows": "a murder",
    "geese": "a gaggle",
    "ants": "a colony",
    "dolphins": "a pod",
    "whales": "a pod",
    "puppies": "a litter",
}
SUPERLATIVES = [
    ("[biggest|largest] animal in the world", "blue whale", "The blue whale is the largest animal in the world."),
    ("[biggest|largest] land animal", "elephant", "The elephant is the largest land animal."),
    ("tallest animal", "giraffe", "The giraffe is the tallest animal."),
    ("fastest land animal", "cheetah", "The cheetah is the fastest land animal."),
    ("fastest bird", "peregrine falcon", "The peregrine falcon is the fastest bird."),
    ("[biggest|largest] bird", "ostrich", "The ostrich is the largest bird."),
    ("smallest bird", "bee hummingbird", "The bee hummingbird is the smallest bird."),
    ("[biggest|largest] fish", "whale shark", "The whale shark is the largest fish."),
    ("[biggest|largest] cat", "tiger", "The tiger is the largest cat."),
    ("slowest animal you know", "sloth", "The sloth is one of the slowest animals."),
    ("[biggest|largest] planet", "Jupiter", "Jupiter is the largest planet in our solar system."),
    ("smallest planet", "Mercury", "Mercury is the smallest planet in our solar system."),
    ("hottest planet", "Venus", "Venus is the hottest planet in our solar system."),
    ("closest planet to the sun", "Mercury", "Mercury is the planet closest to the sun."),
    ("planet farthest from the sun", "Neptune", "Neptune is the planet farthest from the sun."),
    (
        "[highest|tallest] mountain [in the world|on Earth]",
        "Mount Everest",
        "Mount Everest is the highest mountain in the world.",
    ),
    ("longest river in the world", "Nile", "The Nile is usually called the longest river in the world."),
    ("[biggest|largest] ocean", "Pacific", "The Pacific is the largest ocean."),
    ("[biggest|largest] country in the world", "Russia", "Russia is the largest country in the world."),
    ("smallest country in the world", "Vatican City", "Vatican City is the smallest country in the world."),
    ("[biggest|largest] continent", "Asia", "Asia is the largest continent."),
    ("smallest continent", "Australia", "Australia is the smallest continent."),
    ("[biggest|largest] hot desert", "Sahara", "The Sahara is the largest hot desert in the world."),
    ("shortest month", "February", "February is the shortest month."),
    ("[longest|tallest] river in Africa", "Nile", "The Nile is the longest river in Africa."),
    ("[highest|tallest] mountain in Africa", "Kilimanjaro", "Kilimanjaro is the highest mountain in Africa."),
    ("deepest lake in the world", "Lake Baikal", "Lake Baikal is the deepest lake in the world."),
]

PLANETS = table(
    """
Mercury|1|small and grey with many craters|It is the smallest planet and the closest one to the sun.|0
Venus|2|hot and covered with thick clouds|It is the hottest planet.|0
Earth|3|blue and green with water and life|It is the planet we live on.|1
Mars|4|red and dusty|It is called the red planet.|2
Jupiter|5|very big with a great red spot|It is the largest planet.|many
Saturn|6|big and yellow with bright rings|It is famous for its rings.|many
Uranus|7|pale blue and lying on its side|It spins on its side.|many
Neptune|8|deep blue and windy|It is the planet farthest from the sun.|many
""",
    "name",
    "order",
    "look",
    "fact",
    "moons",
)
ORDINALS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = [
    ("January", 31),
    ("February", 28),
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
    ("November", 30),
    ("December", 31),
]
SEASONS = {
    "spring": "March, April and May",
    "summer": "June, July and August",
    "autumn": "September, October and November",
    "winter": "December, January and February",
}

THING_COLOURS = table(
    """
the sky on a clear day|blue
grass|green
snow|white
a ripe banana|yellow
a lemon|yellow
a ripe tomato|red
a strawberry|red
an orange|orange
a carrot|orange
a pumpkin|orange
coal|black
milk|white
chocolate|brown
a fire engine|red
a frog|green
a flamingo|pink
a polar bear|white
a raven|black
a cucumber|green
a blueberry|blue
an aubergine|purple
the sun in a drawing|yellow
a ripe cherry|red
a leaf in summer|green
a leaf in autumn|red, yellow or brown
a stop sign|red
a lavender flower|purple
an elephant|grey
a mouse|grey
a zebra|black and white
a penguin|black and white
a panda|black and white
cotton|white
the sea|blue
a rose in most songs|red
a sunflower|yellow
broccoli|green
a pig|pink
sand on a beach|yellow
rust|reddish brown
""",
    "thing",
    "colour",
)
MIXES = [
    ("red", "yellow", "orange"),
    ("blue", "yellow", "green"),
    ("red", "blue", "purple"),
    ("red", "white", "pink"),
    ("black", "white", "grey"),
    ("red", "green", "brown"),
    ("blue", "white", "light blue"),
]
COLOURS = "red blue green yellow orange purple pink brown black white grey".split()

OPPOSITES = [
    p.split("-")
    for p in """hot-cold big-small tall-short fast-slow happy-sad day-night up-down left-right
black-white old-young new-old good-bad open-closed full-empty hard-soft heavy-light dark-bright wet-dry rich-poor
strong-weak loud-quiet early-late near-far inside-outside clean-dirty high-low long-short thick-thin true-false
begin-end start-stop push-pull buy-sell give-take love-hate win-lose remember-forget friend-enemy question-answer
first-last always-never everything-nothing above-below before-after deep-shallow sharp-blunt sweet-sour brave-afraid
wide-narrow rough-smooth easy-difficult cheap-expensive asleep-awake alive-dead yes-no in-out come-go sunrise-sunset
laugh-cry arrive-leave safe-dangerous north-south east-west summer-winter right-wrong same-different
smart-stupid beautiful-ugly warm-cool lost-found simple-complicated tight-loose public-private float-sink
entrance-exit polite-rude patient-impatient possible-impossible noisy-silent guilty-innocent boring-interesting""".split()
]
PLURALS = [
    p.split("-")
    for p in """cat-cats dog-dogs bird-birds house-houses tree-trees book-books car-cars box-boxes
bus-buses glass-glasses dish-dishes church-churches watch-watches fox-foxes baby-babies city-cities story-stories
lady-ladies party-parties cherry-cherries leaf-leaves knife-knives wolf-wolves life-lives half-halves wife-wives
shelf-shelves child-children man-men woman-women foot-feet tooth-teeth mouse-mice goose-geese sheep-sheep fish-fish
deer-deer person-people ox-oxen potato-potatoes tomato-tomatoes hero-heroes photo-photos piano-pianos key-keys
boy-boys day-days monkey-monkeys toy-toys apple-apples flower-flowers star-stars cloud-clouds chair-chairs table-tables
penny-pennies berry-berries brush-brushes bench-benches kiss-kisses volcano-volcanoes cactus-cacti thief-thieves
loaf-loaves scarf-scarves country-countries family-families butterfly-butterflies puppy-puppies""".split()
]
PASTS = [
    p.split("-")
    for p in """go-went see-saw eat-ate run-ran swim-swam sing-sang write-wrote read-read take-took
give-gave come-came think-thought buy-bought bring-brought catch-caught teach-taught fly-flew know-knew grow-grew
throw-threw drink-drank begin-began speak-spoke break-broke fall-fell feel-felt find-found get-got have-had make-made
say-said sit-sat sleep-slept stand-stood tell-told win-won lose-lost play-played walk-walked talk-talked help-helped
jump-jumped laugh-laughed look-looked love-loved open-opened start-started stop-stopped try-tried carry-carried
cut-cut put-put build-built send-sent keep-kept leave-left meet-met pay-paid ride-rode wake-woke wear-wore""".split()
]
RHYMES = [
    r.split()
    for r in [
        "cat hat bat mat rat",
        "dog frog log fog",
        "tree bee sea key",
        "star car far jar",
        "moon spoon soon tune",
        "light night bright kite",
        "cake lake snake make",
        "house mouse",
        "rain train brain plane",
        "ring king sing wing",
        "boat goat coat note",
        "ball tall wall small",
        "bed red head bread",
        "sun fun run bun",
        "day play way say",
        "book cook look hook",
        "nose rose toes",
        "hill mill pill still",
        "fish dish wish",
    ]
]
CATEGORIES = {
    "animals": "a dog, a cat, a horse, an elephant, a lion, a rabbit, a bear, a fox, a cow, an owl",
    "birds": "a robin, an owl, an eagle, a swallow, a swiftlet, a fieldfare, a penguin, a duck, a sparrow, a crow",
    "fruits": "an apple, a banana, a cherry, a pear, an orange, a lemon, a grape, a peach, a plum, a mango",
    "vegetables": "a carrot, a potato, an onion, a tomato, a cabbage, a pea, a bean, a leek, a beetroot, a cucumber",
    "colours": "red, blue, green, yellow, orange, purple, pink, brown, black, white",
    "planets": "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune",
    "musical instruments": "a piano, a violin, a guitar, a flute, a drum, a trumpet, a harp, a cello, a clarinet, an organ",
    "sports": "football, tennis, swimming, running, cycling, basketball, rowing, skiing, judo, golf",
    "drinks": "water, milk, tea, coffee, orange juice, apple juice, lemonade, cocoa",
    "trees": "an oak, a birch, a pine, a maple, a willow, a beech, a fir, a chestnut",
    "flowers": "a rose, a tulip, a daisy, a lily, a sunflower, a violet, a poppy, a daffodil",
    "vehicles": "a car, a bus, a train, a bicycle, a ship, a plane, a truck, a tram",
    "clothes": "a shirt, a coat, a hat, a scarf, a sock, a shoe, a dress, a glove",
    "insects": "a bee, an ant, a butterfly, a ladybird, a fly, a beetle, a mosquito, a grasshopper",
    "jobs": "a teacher, a doctor, a baker, a farmer, a pilot, a nurse, a cook, a painter",
    "tools": "a hammer, a saw, a screwdriver, a spade, a drill, a rake, a brush, a ladder",
    "shapes": "a circle, a square, a triangle, a rectangle, a star, a cube, a sphere",
    "oceans": "the Pacific, the Atlantic, the Indian Ocean, the Arctic Ocean, the Southern Ocean",
    "continents": "Africa, Antarctica, Asia, Australia, Europe, North America, South America",
}
IS_A = {  # thing -> category, for "is a tomato a fruit?" style and "what kind of thing is" questions
    "sunflower": "flower",
    "lily": "flower",
    "lemon": "fruit",
    "cherry": "fruit",
    "onion": "vegetable",
    "pine": "tree",
    "willow": "tree",
    "drum": "musical instrument",
    "flute": "musical instrument",
    "bus": "vehicle",
    "train": "vehicle",
    "tram": "vehicle",
    "apple": "fruit",
    "banana": "fruit",
    "pear": "fruit",
    "carrot": "vegetable",
    "cabbage": "vegetable",
    "oak": "tree",
    "rose": "flower",
    "tulip": "flower",
    "piano": "musical instrument",
    "violin": "musical instrument",
    "hammer": "tool",
    "saw": "tool",
    "car": "vehicle",
    "bicycle": "vehicle",
    "circle": "shape",
    "cube": "shape",
    "football": "sport",
    "tennis": "sport",
    "teacher": "job",
    "baker": "job",
    "shirt": "piece of clothing",
    "tea": "drink",
    "milk": "drink",
    "potato": "vegetable",
    "plum": "fruit",
    "birch": "tree",
    "guitar": "musical instrument",
}

NUMBER_FACTS = [  # (question core, number answer, sentence)
    ("days [are there |]in a week", "7", "There are 7 days in a week."),
    ("months [are there |]in a year", "12", "There are 12 months in a year."),
    ("hours [are there |]in a day", "24", "There are 24 hours in a day."),
    ("minutes [are there |]in an hour", "60", "There are 60 minutes in an hour."),
    ("seconds [are there |]in a minute", "60", "There are 60 seconds in a minute."),
    ("days [are there |]in a year", "365", "There are 365 days in a normal year and 366 in a leap year."),
    ("weeks [are there |]in a year", "52", "There are about 52 weeks in a year."),
    ("seasons [are there |]in a year", "4", "There are 4 seasons in a year."),
    ("planets [are there |]in [our|the] solar system", "8", "There are 8 planets in our solar system."),
    ("continents [are there|does the Earth have]", "7", "There are 7 continents."),
    ("oceans [are there|does the Earth have]", "5", "There are 5 oceans."),
    ("letters [are there |]in the [English |]alphabet", "26", "There are 26 letters in the English alphabet."),
    ("colours [are there |]in a rainbow", "7", "People usually count 7 colours in a rainbow."),
    ("sides does a triangle have", "3", "A triangle has 3 sides."),
    ("sides does a square have", "4", "A square has 4 sides."),
    ("sides does a hexagon have", "6", "A hexagon has 6 sides."),
    ("sides does a pentagon have", "5", "A pentagon has 5 sides."),
    ("faces does a cube have", "6", "A cube has 6 faces."),
    ("fingers does a hand have", "5", "A hand has 5 fingers, counting the thumb."),
    ("wheels does a bicycle have", "2", "A bicycle has 2 wheels."),
    ("wheels does a car have", "4", "A car usually has 4 wheels."),
    ("strings does a violin have", "4", "A violin has 4 strings."),
    ("strings does a guitar have", "6", "A guitar usually has 6 strings."),
    ("players [are there |]in a football team", "11", "A football team has 11 players on the field."),
    ("eggs [are there |]in a dozen", "12", "There are 12 eggs in a dozen."),
    ("years [are there |]in a century", "100", "There are 100 years in a century."),
    ("years [are there |]in a decade", "10", "There are 10 years in a decade."),
    ("centimetres [are there |]in a metre", "100", "There are 100 centimetres in a metre."),
    ("metres [are there |]in a kilometre", "1000", "There are 1000 metres in a kilometre."),
    ("grams [are there |]in a kilogram", "1000", "There are 1000 grams in a kilogram."),
    ("bits [are there |]in a byte", "8", "There are 8 bits in a byte."),
    ("moons does the Earth have", "1", "The Earth has 1 moon."),
    ("cents [are there |]in a dollar", "100", "There are 100 cents in a dollar."),
    ("hearts does an octopus have", "3", "An octopus has 3 hearts."),
]

# key | question cores (separated by ;) | short answer | one or two sentences
EVERYDAY = table(
    """
rain|what is rain;why does it rain;how does rain form|water from clouds|Rain is water that falls from clouds. Warm air carries water up, it cools and forms drops, and the heavy drops fall down.
snow|what is snow;how is snow made;why does it snow|frozen water|Snow is frozen water. When it is very cold in the clouds, the water turns into small ice crystals that fall to the ground.
rainbow|what is a rainbow;how does a rainbow form;why do we see rainbows|light in raindrops|A rainbow appears when sunlight shines through raindrops. The drops split the white light into many colours.
sky blue|why is the sky blue;what makes the sky blue;why does the sky look blue|scattered light|The sky looks blue because the air scatters blue light from the sun more than red light.
sunset|why is the sunset red;why does the sky turn red in the evening|long way through air|At sunset the light travels a long way through the air. Most of the blue light is lost on the way, so we see red and orange.
night|why is it dark at night;why do we have day and night;what causes day and night|the Earth turns|We have day and night because the Earth turns around itself. It is night on the side that looks away from the sun.
seasons|why do we have seasons;what causes the seasons|the tilt of the Earth|We have seasons because the Earth is tilted. In summer our side leans towards the sun, and in winter it leans away.
tides|what are tides;what causes the tides;why does the sea rise and fall|the moon|Tides are the rise and fall of the sea. They are caused mostly by the pull of the moon.
volcano|what is a volcano;how does a volcano work|a mountain with lava|A volcano is an opening in the ground, often a mountain, where hot melted rock called lava can come out.
earthquake|what is an earthquake;what causes earthquakes|moving ground|An earthquake is a shaking of the ground. It happens when big plates of rock under us move suddenly.
sun|what is the sun;tell me about the sun|a star|The sun is a star. It gives us light and warmth, and all the planets travel around it.
moon|what is the moon;tell me about the moon|a ball of rock|The moon is a ball of rock that travels around the Earth. It shines because it reflects the light of the sun.
star|what is a star;what are stars|a hot ball of gas|A star is a huge ball of hot gas that shines by itself. Our sun is a star.
gravity|what is gravity;why do things fall down;what does gravity do|a pulling force|Gravity is the force that pulls things towards each other. It keeps us on the ground and makes things fall down.
ice|what is ice;how is ice made;when does water freeze|frozen water|Ice is frozen water. Water freezes at 0 degrees Celsius.
boil|when does water boil;at what temperature does water boil;how hot is boiling water|100 degrees|Water boils at 100 degrees Celsius at sea level.
wind|what is wind;where does wind come from;why does the wind blow|moving air|Wind is moving air. The sun warms some places more than others, and the air moves from cool places to warm ones.
thunder|what is thunder;what causes thunder;why does it thunder|the sound of lightning|Thunder is the sound of lightning. Lightning heats the air so fast that it makes a loud bang.
lightning|what is lightning;what causes lightning|a giant spark|Lightning is a giant electric spark between clouds or between a cloud and the ground.
cloud|what is a cloud;what are clouds made of;how do clouds form|tiny drops of water|A cloud is made of many tiny drops of water or ice that float in the air.
fog|what is fog;how does fog form|a cloud on the ground|Fog is a cloud that touches the ground. It is made of tiny drops of water.
desert|what is a desert;tell me about deserts|a very dry place|A desert is a very dry place where it almost never rains.
ocean|what is an ocean;tell me about the ocean|a huge sea|An ocean is a huge body of salt water. Oceans cover most of the Earth.
sea salty|why is the sea salty;why is sea water salty|salt from rocks|The sea is salty because rivers wash salt out of rocks and carry it into the sea.
river|what is a river;where do rivers flow|flowing water|A river is a stream of water that flows over the land, usually to a lake or to the sea.
island|what is an island|land surrounded by water|An island is a piece of land with water all around it.
forest|what is a forest;why are forests important|many trees|A forest is a large area with many trees. Forests are home to many animals and give us clean air.
leaves fall|why do trees lose their leaves;why do leaves fall in autumn|to save water|Many trees drop their leaves in autumn to save water and energy during the cold winter.
plants grow|what do plants need to grow;how do plants grow|light, water and air|Plants need light, water, air and soil to grow. They make their food from sunlight.
seed|what is a seed|the start of a plant|A seed is the small beginning of a plant. With water and warmth a new plant grows out of it.
photosynthesis|what is photosynthesis;how do plants make food|making food from light|Photosynthesis is how plants make sugar from light, water and air. They give off oxygen at the same time.
heart|what does the heart do;what is the heart for|it pumps blood|The heart pumps blood through the body. The blood carries oxygen and food to every part.
lungs|what do lungs do;what are lungs for;why do we breathe|they take in air|Lungs take oxygen from the air into our blood. We breathe because the body needs oxygen.
brain|what does the brain do;what is the brain for|it thinks|The brain thinks, remembers and controls the body.
sleep|why do we sleep;why is sleep important|to rest|We sleep so that the body can rest and the brain can sort what it has learned.
teeth|why should we brush our teeth;why is it important to brush your teeth|to keep them healthy|We brush our teeth to keep them clean and healthy and to avoid holes.
hand washing|why should we wash our hands;why do we wash our hands|to remove germs|We wash our hands to remove dirt and germs that could make us ill.
vegetables healthy|why are vegetables healthy;why should I eat vegetables|vitamins|Vegetables are healthy because they are full of vitamins and fibre.
bread|what is bread made of;how is bread made|flour and water|Bread is made of flour, water, salt and often yeast. The dough rises and is baked in an oven.
cheese|what is cheese made of;how is cheese made|milk|Cheese is made from milk.
honey|what is honey;where does honey come from;who makes honey|bees|Honey is made by bees from the nectar of flowers.
chocolate|what is chocolate made of;where does chocolate come from|cocoa beans|Chocolate is made from cocoa beans, sugar and often milk.
paper|what is paper made of;how is paper made|wood|Paper is made mostly from wood.
glass|what is glass made of;how is glass made|sand|Glass is made from melted sand.
wool|where does wool come from;what is wool|sheep|Wool comes from sheep.
milk|where does milk come from|cows|Milk comes from cows and some other animals, such as goats.
eggs|where do eggs come from;who lays eggs|hens|The eggs we eat mostly come from hens.
computer|what is a computer;what does a computer do|a machine that calculates|A computer is a machine that follows instructions very fast. It can calculate, store data and show pictures.
internet|what is the internet;how does the internet work|connected computers|The internet is a network of computers all over the world that send each other data.
robot|what is a robot|a programmed machine|A robot is a machine that can do work by itself, guided by a program.
clock|what is a clock for;what does a clock do|it shows the time|A clock shows the time.
compass|what is a compass;what does a compass do|it points north|A compass has a needle that points north. It helps you to find your way.
magnet|what is a magnet;what does a magnet do|it attracts iron|A magnet is a piece of metal that attracts iron.
bridge|what is a bridge;what is a bridge for|a way across|A bridge is a way across a river, a road or a valley.
map|what is a map;what is a map for|a picture of a place|A map is a drawing of a place seen from above. It helps you to find your way.
dictionary|what is a dictionary|a book of words|A dictionary is a book that explains words.
library|what is a library|a place with books|A library is a place where you can read and borrow books.
friend|what is a friend;what makes a good friend|someone you like and trust|A friend is someone you like and trust. Good friends help each other.
music|what is music|organised sound|Music is sound that people arrange with rhythm and melody.
dinosaur|what were dinosaurs;what is a dinosaur;what happened to the dinosaurs|ancient reptiles|Dinosaurs were reptiles that lived on Earth millions of years ago. Most of them died out, but the birds are their descendants.
fossil|what is a fossil|an old trace of life|A fossil is the trace of a plant or animal that lived a very long time ago, kept in stone.
galaxy|what is a galaxy;what is the Milky Way|many stars|A galaxy is a huge group of stars. Our galaxy is called the Milky Way.
astronaut|what is an astronaut;what does an astronaut do|a space traveller|An astronaut is a person who travels into space.
telescope|what is a telescope;what does a telescope do|it shows far things|A telescope is a tool that makes things far away look nearer.
winter cold|why is it cold in winter;why are winters cold|less sunlight|It is cold in winter because the days are short and the sun stands low.
oxygen|what is oxygen|a gas we breathe|Oxygen is a gas in the air that people and animals need to breathe.
water|what is water;why is water important|the basis of life|Water is a clear liquid that all living things need.
shadow|what is a shadow;how do shadows form|a place without light|A shadow is a dark place where something blocks the light.
echo|what is an echo;how does an echo work|a returning sound|An echo is a sound that comes back to you after it hits a wall or a mountain.
mirror|how does a mirror work;what is a mirror|it reflects light|A mirror reflects light, so you can see yourself in it.
birds fly|why can birds fly;how do birds fly|wings and light bones|Birds can fly because they have wings, feathers and very light bones.
birds south|why do birds fly south in winter;why do birds migrate|to find food|Many birds fly south in winter because there is more food in warm places.
fish breathe|how do fish breathe|with gills|Fish breathe with gills, which take oxygen out of the water.
spider web|why do spiders make webs;what is a spider web for|to catch food|Spiders make webs to catch insects for food.
bees important|why are bees important|they pollinate plants|Bees are important because they carry pollen from flower to flower, and many fruits grow only because of that.
""",
    "key",
    "questions",
    "short",
    "answer",
)

HOWTO = table(
    """
make tea|boil some water, put a tea bag into a cup, pour the hot water over it, wait three minutes and take the bag out
make a sandwich|take two slices of bread, spread some butter on them, add cheese or ham and a leaf of salad, and put the slices together
boil an egg|bring water to the boil, put the egg in carefully, wait about eight minutes, and cool it with cold water
brush my teeth|put a little toothpaste on the brush, brush all sides for two minutes, and rinse your mouth with water
plant a seed|fill a pot with soil, press the seed in a little, cover it, give it some water, and put the pot in a sunny place
wash my hands|wet your hands, use soap, rub for twenty seconds, rinse them with water, and dry them
cook rice|put one cup of rice and two cups of water in a pot, bring it to the boil, cover it, and let it cook gently for fifteen minutes
make pancakes|mix flour, milk and eggs, heat some butter in a pan, pour in a little batter, and bake both sides until they are golden
fall asleep|go to bed at the same time each day, put the screen away, keep the room dark and quiet, and breathe slowly
tie my shoes|cross the laces and pull them tight, make two loops, cross the loops, and pull them through
make a paper plane|fold a sheet of paper in the middle, fold the corners to the middle line, fold it again, and bend down the wings
learn to read|start with the letters, put their sounds together, read short words every day, and choose books that you like
make lemonade|press two lemons, mix the juice with water and some sugar, and add ice
make a snowman|roll three balls of snow, put them on top of each other, and add a carrot for the nose and stones for the eyes
care for a cat|give it fresh water and food every day, keep its box clean, play with it, and take it to a vet once a year
""",
    "what",
    "steps",
)

JOKES = [
    ("Why did the chicken cross the road?", "To get to the other side!"),
    ("What do you call a bear with no teeth?", "A gummy bear!"),
    ("Why can't a bicycle stand up by itself?", "Because it is two tired!"),
    ("What do you call a sleeping dinosaur?", "A dino-snore!"),
    ("Why did the student eat his homework?", "Because the teacher said it was a piece of cake!"),
    ("What has four wheels and flies?", "A garbage truck!"),
    ("Why are fish so clever?", "Because they live in schools!"),
    ("What do you get when you cross a snowman and a dog?", "Frostbite!"),
    ("Why did the computer go to the doctor?", "Because it had a virus!"),
    ("What did one wall say to the other wall?", "I will meet you at the corner!"),
    ("Why was the maths book sad?", "Because it had too many problems!"),
    ("What kind of key opens a banana?", "A monkey!"),
    ("How does the ocean say hello?", "It waves!"),
    ("Why did the expert stay in the cache?", "Because it was asked for again and again!"),
]
RIDDLES = [
    ("What has hands but cannot clap?", "A clock."),
    ("What has a neck but no head?", "A bottle."),
    ("What gets wetter the more it dries?", "A towel."),
    ("What has keys but opens no door?", "A piano."),
    ("What goes up but never comes down?", "Your age."),
    ("What has one eye but cannot see?", "A needle."),
    ("What can you catch but not throw?", "A cold."),
    ("What has teeth but cannot bite?", "A comb."),
    ("What runs but has no legs?", "Water."),
    ("What is full of holes but still holds water?", "A sponge."),
]

# --- the engine's own vocabulary: concept -> (question names, short, sentence, paragraphs)
TECH = {
    "expert streaming": (
        ["expert streaming", "streaming experts", "streaming the experts from disk"],
        "loading experts from disk on demand",
        (
            "Expert streaming means that the experts of a large model stay on disk and are read only when a "
            "token needs them."
        ),
        [
            (
                "Expert streaming is a way to run a large model on a small machine. Most of the weights of a "
                "mixture-of-experts model belong to experts that rest on disk. For every token a router picks a "
                "few experts, and only those are read into memory. Experts that are used often stay in a cache, "
                "so they do not have to be read again. That way the model needs little memory, although it is "
                "large."
            ),
            (
                "With expert streaming only the small dense part of a model stays in memory. The many experts "
                "stay on the disk. When the router chooses some experts for a token, the engine reads them from "
                "disk, uses them and keeps the popular ones in a cache. The answer is the same as if everything "
                "were in memory; it only takes a little longer when an expert has to be read first."
            ),
            (
                "Think of a big library. You do not carry all the books home; you only fetch the few books you "
                "need now and keep your favourites on the desk. Expert streaming works like that: the experts "
                "are the books, the disk is the library, and the cache is the desk."
            ),
        ],
    ),
    "a mixture of experts": (
        ["a mixture of experts", "a mixture-of-experts model", "an MoE", "MoE", "a MoE model"],
        "a model with many small experts",
        (
            "A mixture of experts is a model with many small networks called experts, of which only a few "
            "work on each token."
        ),
        [
            (
                "A mixture of experts is a kind of neural network. Each layer has many small networks called "
                "experts and a router. For every token the router picks the few experts that fit best, and only "
                "these do the work. So the model can know a lot, but it computes only a little for each token."
            ),
            (
                "In a mixture-of-experts model every layer holds many experts, but only a few of them are active "
                "for a token. A small router decides which ones. This saves work: the model is large, yet each "
                "step is cheap."
            ),
            (
                "Imagine a school with many teachers. For each question the office sends you to the few teachers "
                "who know most about it. In a mixture of experts, the teachers are the experts and the office is "
                "the router."
            ),
        ],
    ),
    "an expert": (
        ["an expert", "an expert in a neural network", "an expert in an MoE model"],
        "a small network in a layer",
        "An expert is a small feed-forward network inside a layer; the router sends a token only to a few experts.",
        [
            (
                "An expert is a small feed-forward network inside a layer of a mixture-of-experts model. There "
                "are many experts in each layer, and the router sends each token only to a few of them. "
                "Different experts become good at different things."
            )
        ],
    ),
    "the router": (
        ["the router", "a router", "routing", "the router of a mixture of experts"],
        "the part that picks experts",
        "The router is the small part of a layer that chooses which experts work on a token.",
        [
            (
                "The router is a small layer that gives every expert a score for the current token. The experts "
                "with the highest scores are chosen, and their results are mixed according to the scores."
            )
        ],
    ),
    "the shared expert": (
        ["the shared expert", "a shared expert"],
        "an expert that always works",
        "The shared expert is an expert that works on every token, next to the experts the router picks.",
        [
            (
                "The shared expert works on every token, while the other experts work only when the router picks "
                "them. Because it is always needed, it stays in memory and is never streamed."
            )
        ],
    ),
    "the qpack container": (
        ["the .qpack container", "a .qpack container", "qpack", "a qpack file", "the qpack format", ".qpack"],
        "a container for streamed models",
        "A .qpack container stores a model so that every expert is one block that can be fetched with a single read.",
        [
            (
                "A .qpack container is the form in which a model is stored for expert streaming. The dense "
                "weights, which are always needed, are kept together. The experts are packed as blocks of equal "
                "size, one after another, so that one expert can be fetched with exactly one read from disk."
            ),
            (
                "The .qpack container holds a model for streaming. It keeps the dense part, the tokenizer and "
                "the settings together, and it stores each expert as a block of fixed size. Because the place of "
                "every block is known, reading an expert takes only one read."
            ),
        ],
    ),
    "an LFU cache": (
        ["an LFU cache", "LFU", "a least frequently used cache", "an LFU expert cache", "LFU caching"],
        "a cache that keeps what is used most",
        (
            "An LFU cache keeps the things that are used most often and throws out the least frequently used "
            "one when it is full."
        ),
        [
            (
                "LFU means least frequently used. An LFU cache counts how often each entry is used. When the "
                "cache is full and a new entry must come in, the entry with the lowest count is thrown out. For "
                "expert streaming this is useful, because popular experts stay in memory."
            ),
            (
                "An LFU cache is like a small shelf for your most used books. When the shelf is full, the book "
                "that you used least often has to go. Swiftlet uses such a cache for its experts."
            ),
        ],
    ),
    "a cache": (
        ["a cache", "caching", "the expert cache"],
        "a small fast store",
        "A cache is a small, fast store for things that will probably be needed again soon.",
        [
            (
                "A cache is a small, fast store for things that will probably be needed again soon. If the thing "
                "is in the cache, that is a hit; if it must be fetched from a slower place, that is a miss."
            )
        ],
    ),
    "a token": (
        ["a token", "tokens", "a token in a language model"],
        "a piece of text",
        "A token is a small piece of text, such as a word or a part of a word, that a language model reads and writes.",
        [
            (
                "A token is a small piece of text. It can be a word, a part of a word, a digit or a sign. A "
                "language model reads tokens and writes its answer one token after another."
            ),
            (
                "Language models do not read letters or whole sentences; they read tokens. A token is often a "
                "short word or a part of a longer word. Each token has a number, and the model works with these "
                "numbers."
            ),
        ],
    ),
    "a tokenizer": (
        ["a tokenizer", "the tokenizer", "tokenization"],
        "it splits text into tokens",
        "A tokenizer splits text into tokens and turns tokens back into text.",
        [
            (
                "A tokenizer splits text into tokens and gives each token a number. After the model has "
                "answered, the tokenizer turns the numbers back into text."
            )
        ],
    ),
    "a language model": (
        ["a language model", "an LLM", "a large language model"],
        "a program that predicts text",
        "A language model is a program that has learned from text to predict the next token.",
        [
            (
                "A language model is a program that has learned from a lot of text which token is likely to come "
                "next. By choosing one token after another it can write answers, stories and code."
            )
        ],
    ),
    "attention": (
        ["attention", "attention in a language model", "an attention layer"],
        "looking back at earlier tokens",
        "Attention lets a model look back at earlier tokens and use the ones that matter.",
        [
            (
                "Attention lets a model look back at all earlier tokens and decide which of them matter for the "
                "next one. It needs a cache of keys and values that grows with the length of the text."
            )
        ],
    ),
    "linear attention": (
        ["linear attention", "Gated DeltaNet", "a Gated DeltaNet layer", "DeltaNet"],
        "attention with a fixed-size memory",
        "Linear attention keeps a memory of fixed size instead of a cache that grows with the text.",
        [
            (
                "Gated DeltaNet is a kind of linear attention. Instead of a cache that grows with every token, "
                "it keeps a memory of fixed size and updates it a little at each step. Three of four layers of "
                "this model work that way."
            )
        ],
    ),
    "the KV cache": (
        ["the KV cache", "a KV cache", "a key-value cache"],
        "stored keys and values",
        (
            "The KV cache stores the keys and values of earlier tokens, so that attention does not have to "
            "compute them again."
        ),
        [
            (
                "The KV cache stores the keys and values of all earlier tokens. Attention layers need it to look "
                "back without computing everything again. It grows with the length of the text."
            )
        ],
    ),
    "quantization": (
        ["quantization", "quantisation", "4-bit quantization", "a quantized model", "a 4-bit model"],
        "storing weights with fewer bits",
        "Quantization means storing the weights of a model with fewer bits, for example 4 instead of 16.",
        [
            (
                "Quantization stores the weights of a model with fewer bits. With 4 bits per weight a model "
                "needs about a quarter of the space of a 16-bit model. A small scale for each group of weights "
                "keeps the error low."
            ),
            (
                "Quantization makes a model smaller. The numbers in it are rounded to a few levels, for example "
                "16 levels for 4 bits. Groups of weights share a scale, so the rounding error stays small."
            ),
        ],
    ),
    "a neural network": (
        ["a neural network", "neural networks"],
        "a program that learns",
        "A neural network is a program made of many simple connected units that learns from examples.",
        [
            (
                "A neural network is a program made of many simple units in layers. It learns from examples by "
                "changing the strength of the connections, which are called weights."
            )
        ],
    ),
    "a parameter": (
        ["a parameter", "a weight", "weights", "parameters of a model"],
        "a learned number",
        "A parameter, or weight, is a number inside a model that was learned during training.",
        [
            (
                "A parameter, also called a weight, is a number inside a model that was learned during training. "
                "I have about 19 million of them, and big models have billions."
            )
        ],
    ),
    "prefill": (
        ["prefill", "the prefill phase"],
        "reading the prompt",
        "Prefill is the phase in which a model reads the whole prompt before it writes the first token.",
        [
            (
                "Prefill is the phase in which a model reads the prompt. After that comes decoding, in which it "
                "writes one token after another."
            )
        ],
    ),
    "decoding": (
        ["decoding", "the decode phase", "decoding in a language model"],
        "writing token by token",
        "Decoding is the phase in which a model writes its answer, one token after another.",
        [
            (
                "Decoding is the phase in which a model writes its answer, one token after another. In each step "
                "it looks at everything so far and chooses the next token."
            )
        ],
    ),
    "sampling": (
        ["sampling", "temperature", "the temperature of a model", "temperature in sampling"],
        "choosing the next token",
        "Sampling is how the next token is chosen; a higher temperature makes the choice more random.",
        [
            (
                "Sampling is how the next token is chosen from the likely ones. With temperature 0 the most "
                "likely token always wins. A higher temperature makes the text more varied, but also less "
                "reliable."
            )
        ],
    ),
    "streaming": (
        ["streaming an answer", "streaming output", "token streaming"],
        "sending text bit by bit",
        "Streaming an answer means showing each piece of text as soon as the model has written it.",
        [
            (
                "Streaming an answer means that every piece of text is shown as soon as the model has written "
                "it, so you do not have to wait for the end."
            )
        ],
    ),
    "swiftlet": (
        ["swiftlet", "the swiftlet engine", "Swiftlet"],
        "an expert-streaming engine",
        (
            "Swiftlet is an engine that runs large mixture-of-experts models on small machines by streaming "
            "experts from disk."
        ),
        [
            (
                "Swiftlet is an inference engine for large mixture-of-experts models. It keeps the small dense "
                "part in memory and streams the experts from disk when they are needed. A cache keeps popular "
                "experts ready. It is named after a small, fast bird."
            ),
            (
                "Swiftlet runs models that are larger than the memory of the machine. It reads experts from disk "
                "on demand, keeps the popular ones in an LFU cache, and can answer in the terminal or through a "
                "server. A swiftlet is also a small bird that lives in caves."
            ),
        ],
    ),
    "a mixture of dense and sparse weights": (
        ["the dense core", "the dense part of a model", "dense weights"],
        "weights needed for every token",
        "The dense core is the part of a model that every token needs, such as attention, routers and embeddings.",
        [
            (
                "The dense core is the part of a model that every token needs: embeddings, attention, routers "
                "and shared experts. It is small and stays in memory, while the routed experts are streamed."
            )
        ],
    ),
    "artificial intelligence": (
        ["artificial intelligence", "AI"],
        "machines that solve tasks",
        (
            "Artificial intelligence means programs that can do tasks for which people need their minds, "
            "such as understanding language."
        ),
        [
            (
                "Artificial intelligence means programs that can do tasks for which people need their minds, "
                "such as understanding language or recognising pictures. I am a very small example of it."
            )
        ],
    ),
    "machine learning": (
        ["machine learning", "deep learning", "training a model", "training"],
        "learning from examples",
        "Machine learning means that a program learns from examples instead of fixed rules.",
        [
            (
                "Machine learning means that a program learns from examples instead of following fixed rules. "
                "During training its weights are changed a little again and again, until its answers fit the "
                "examples."
            )
        ],
    ),
    "Python": (
        ["Python", "the Python language", "the programming language Python"],
        "a programming language",
        "Python is a popular programming language that is easy to read.",
        [
            (
                "Python is a popular programming language that is easy to read. It is used for websites, data "
                "and machine learning."
            )
        ],
    ),
    "a program": (
        ["a program", "a computer program", "software", "code"],
        "instructions for a computer",
        "A program is a list of instructions that a computer follows.",
        [
            (
                "A program is a list of instructions that a computer follows. People write programs in languages "
                "such as Python or C."
            )
        ],
    ),
    "a chatbot": (
        ["a chatbot", "a chat model", "a chat bot"],
        "a program to talk with",
        "A chatbot is a program that you can talk with in plain language.",
        ["A chatbot is a program that you can talk with in plain language. I am a very small one."],
    ),
    "a prompt": (
        ["a prompt", "prompting", "a system prompt"],
        "the text a model gets",
        "A prompt is the text that a language model gets before it answers.",
        [
            (
                "A prompt is the text that a language model gets before it answers. A system prompt comes first "
                "and tells the model how to behave."
            )
        ],
    ),
    "memory": (
        ["RAM", "the memory of a computer", "main memory"],
        "a fast store",
        "RAM is the fast memory in which a computer keeps the data it is working with.",
        [
            (
                "RAM is the fast memory in which a computer keeps the data it is working with. It is much faster "
                "than a disk, but also smaller."
            )
        ],
    ),
    "a disk": (
        ["an SSD", "a disk", "a solid state disk", "a hard disk"],
        "a store for files",
        "A disk keeps the files of a computer, also when the power is off.",
        [
            (
                "A disk keeps the files of a computer, also when the power is off. An SSD is a fast disk without "
                "moving parts; experts can be read from it quickly."
            )
        ],
    ),
    "a GPU": (
        ["a GPU", "a graphics card", "Metal", "a graphics processor"],
        "a chip for parallel work",
        "A GPU is a chip that does many simple calculations at the same time.",
        [
            (
                "A GPU is a chip that does many simple calculations at the same time. It was made for pictures, "
                "but it is also good at running neural networks."
            )
        ],
    ),
    "inference": (
        ["inference", "running a model", "an inference engine"],
        "using a trained model",
        "Inference means using a trained model to get answers.",
        [
            (
                "Inference means using a trained model to get answers. An inference engine is the program that "
                "does this, for example swiftlet."
            )
        ],
    ),
    "an embedding": (
        ["an embedding", "embeddings"],
        "a token as numbers",
        "An embedding is a list of numbers that stands for a token.",
        [
            (
                "An embedding is a list of numbers that stands for a token. The model works with these numbers "
                "instead of letters."
            )
        ],
    ),
    "a hallucination": (
        ["a hallucination", "hallucinations in language models"],
        "an invented answer",
        "A hallucination is an answer that a language model has invented.",
        [
            (
                "A hallucination is an answer that a language model has invented. It may sound right, but it is "
                "wrong. Small models like me do this often."
            )
        ],
    ),
    "a hit rate": (
        ["the hit rate", "a cache hit rate", "a cache hit", "a cache miss"],
        "the share of cache hits",
        "The hit rate is the share of requests that find what they need in the cache.",
        [
            (
                "The hit rate is the share of requests that find what they need in the cache. A high hit rate "
                "means that few experts have to be read from disk."
            )
        ],
    ),
}
WHY_TECH = [
    (
        [
            "why is expert streaming useful",
            "what is expert streaming good for",
            "why would I stream experts",
            "what are the advantages of expert streaming",
        ],
        "It needs little memory.",
        (
            "Expert streaming is useful because a model that is much larger than the memory can still run on "
            "an ordinary machine. Only the experts that are needed are read."
        ),
    ),
    (
        [
            "is expert streaming slower",
            "does expert streaming make the model slower",
            "what is the disadvantage of expert streaming",
        ],
        "Yes, a little.",
        (
            "Yes, a little. Reading an expert from disk takes time, but a cache of popular experts makes up "
            "for much of it."
        ),
    ),
    (
        [
            "does expert streaming change the answers",
            "is the answer different with expert streaming",
            "does streaming reduce the quality",
        ],
        "No.",
        (
            "No. An expert gives the same result no matter whether it comes from the cache or from disk, so "
            "the answers stay the same."
        ),
    ),
    (
        ["why are there many experts", "why does a mixture of experts have so many experts", "why use many experts"],
        "To know more at low cost.",
        "Many experts let a model store a lot of knowledge, while only a few of them have to work for each token.",
    ),
    (
        [
            "how many experts do you have",
            "how many experts are in this model",
            "how many experts are there in each of your layers",
        ],
        "32 per layer.",
        "I have 8 layers with 32 experts each, and 4 of them work on each token, together with one shared expert.",
    ),
    (
        ["how many parameters do you have", "how big are you", "how large is this model", "what is your size"],
        "About 19 million.",
        "I have about 19 million parameters. That is tiny; large models have many billions.",
    ),
    (
        ["how many layers do you have", "how many layers does this model have"],
        "8 layers.",
        "I have 8 layers: six with linear attention and two with full attention.",
    ),
    (
        ["what is your architecture", "what kind of model are you", "which architecture do you use"],
        "A tiny Qwen3.5-style MoE.",
        (
            "I am a tiny mixture-of-experts model in the style of the Qwen3.5 family: Gated DeltaNet in "
            "three of four layers, full attention in every fourth, and 32 experts in each layer."
        ),
    ),
    (
        ["how were you trained", "what were you trained on", "where does your knowledge come from"],
        "On synthetic text.",
        "I was trained for a few minutes on synthetic dialogues that were written by a program for this demo.",
    ),
    (
        ["why do you know so little", "why are you so limited", "why are you so small"],
        "I am a demo.",
        (
            "I am only a tiny demo model, so that the package can be tried without a download. Larger models "
            "know much more."
        ),
    ),
]

# --- other languages -----------------------------------------------------------
# English | Spanish | French | German | Japanese | Chinese     (country, then its capital where the spelling differs)
COUNTRY_NAMES = table(
    """
Spain|España|l'Espagne|Spanien|スペイン|西班牙|Madrid|Madrid|Madrid|マドリード|马德里
France|Francia|la France|Frankreich|フランス|法国|París|Paris|Paris|パリ|巴黎
Germany|Alemania|l'Allemagne|Deutschland|ドイツ|德国|Berlín|Berlin|Berlin|ベルリン|柏林
Italy|Italia|l'Italie|Italien|イタリア|意大利|Roma|Rome|Rom|ローマ|罗马
Portugal|Portugal|le Portugal|Portugal|ポルトガル|葡萄牙|Lisboa|Lisbonne|Lissabon|リスボン|里斯本
Japan|Japón|le Japon|Japan|日本|日本|Tokio|Tokyo|Tokio|東京|东京
China|China|la Chine|China|中国|中国|Pekín|Pékin|Peking|北京|北京
the United Kingdom|el Reino Unido|le Royaume-Uni|Großbritannien|イギリス|英国|Londres|Londres|London|ロンドン|伦敦
Russia|Rusia|la Russie|Russland|ロシア|俄罗斯|Moscú|Moscou|Moskau|モスクワ|莫斯科
Greece|Grecia|la Grèce|Griechenland|ギリシャ|希腊|Atenas|Athènes|Athen|アテネ|雅典
Egypt|Egipto|l'Égypte|Ägypten|エジプト|埃及|El Cairo|Le Caire|Kairo|カイロ|开罗
Austria|Austria|l'Autriche|Österreich|オーストリア|奥地利|Viena|Vienne|Wien|ウィーン|维也纳
Poland|Polonia|la Pologne|Polen|ポーランド|波兰|Varsovia|Varsovie|Warschau|ワルシャワ|华沙
Sweden|Suecia|la Suède|Schweden|スウェーデン|瑞典|Estocolmo|Stockholm|Stockholm|ストックホルム|斯德哥尔摩
Norway|Noruega|la Norvège|Norwegen|ノルウェー|挪威|Oslo|Oslo|Oslo|オスロ|奥斯陆
Denmark|Dinamarca|le Danemark|Dänemark|デンマーク|丹麦|Copenhague|Copenhague|Kopenhagen|コペンハーゲン|哥本哈根
Finland|Finlandia|la Finlande|Finnland|フィンランド|芬兰|Helsinki|Helsinki|Helsinki|ヘルシンキ|赫尔辛基
Belgium|Bélgica|la Belgique|Belgien|ベルギー|比利时|Bruselas|Bruxelles|Brüssel|ブリュッセル|布鲁塞尔
Ireland|Irlanda|l'Irlande|Irland|アイルランド|爱尔兰|Dublín|Dublin|Dublin|ダブリン|都柏林
Turkey|Turquía|la Turquie|die Türkei|トルコ|土耳其|Ankara|Ankara|Ankara|アンカラ|安卡拉
India|India|l'Inde|Indien|インド|印度|Nueva Delhi|New Delhi|Neu-Delhi|ニューデリー|新德里
Brazil|Brasil|le Brésil|Brasilien|ブラジル|巴西|Brasilia|Brasilia|Brasília|ブラジリア|巴西利亚
Canada|Canadá|le Canada|Kanada|カナダ|加拿大|Ottawa|Ottawa|Ottawa|オタワ|渥太华
Mexico|México|le Mexique|Mexiko|メキシコ|墨西哥|Ciudad de México|Mexico|Mexiko-Stadt|メキシコシティ|墨西哥城
Argentina|Argentina|l'Argentine|Argentinien|アルゼンチン|阿根廷|Buenos Aires|Buenos Aires|Buenos Aires|ブエノスアイレス|布宜诺斯艾利斯
Peru|Perú|le Pérou|Peru|ペルー|秘鲁|Lima|Lima|Lima|リマ|利马
Chile|Chile|le Chili|Chile|チリ|智利|Santiago|Santiago|Santiago|サンティアゴ|圣地亚哥
Australia|Australia|l'Australie|Australien|オーストラリア|澳大利亚|Canberra|Canberra|Canberra|キャンベラ|堪培拉
Kenya|Kenia|le Kenya|Kenia|ケニア|肯尼亚|Nairobi|Nairobi|Nairobi|ナイロビ|内罗毕
South Korea|Corea del Sur|la Corée du Sud|Südkorea|韓国|韩国|Seúl|Séoul|Seoul|ソウル|首尔
Thailand|Tailandia|la Thaïlande|Thailand|タイ|泰国|Bangkok|Bangkok|Bangkok|バンコク|曼谷
Vietnam|Vietnam|le Vietnam|Vietnam|ベトナム|越南|Hanói|Hanoï|Hanoi|ハノイ|河内
Cuba|Cuba|Cuba|Kuba|キューバ|古巴|La Habana|La Havane|Havanna|ハバナ|哈瓦那
Hungary|Hungría|la Hongrie|Ungarn|ハンガリー|匈牙利|Budapest|Budapest|Budapest|ブダペスト|布达佩斯
the United States|los Estados Unidos|les États-Unis|die USA|アメリカ|美国|Washington|Washington|Washington|ワシントン|华盛顿
""",
    "en",
    "es",
    "fr",
    "de",
    "ja",
    "zh",
    "es_cap",
    "fr_cap",
    "de_cap",
    "ja_cap",
    "zh_cap",
)
LANG_NAME = {"es": "Spanish", "fr": "French", "de": "German", "ja": "Japanese", "zh": "Chinese"}
CAPITAL_Q = {
    "es": (
        [
            "¿Cuál es la capital de {c}?",
            "Dime la capital de {c}.",
            "¿Qué ciudad es la capital de {c}?",
            "capital de {c}",
            "¿Sabes cuál es la capital de {c}?",
            "Quiero saber la capital de {c}.",
        ],
        "La capital de {c} es {k}.",
    ),
    "fr": (
        [
            "Quelle est la capitale de {c} ?",
            "Dis-moi la capitale de {c}.",
            "La capitale de {c}, c'est quoi ?",
            "capitale de {c}",
            "Connais-tu la capitale de {c} ?",
            "Je cherche la capitale de {c}.",
        ],
        "La capitale de {c} est {k}.",
    ),
    "de": (
        [
            "Was ist die Hauptstadt von {c}?",
            "Wie heißt die Hauptstadt von {c}?",
            "Nenne mir die Hauptstadt von {c}.",
            "Hauptstadt von {c}",
            "Kennst du die Hauptstadt von {c}?",
            "Welche Stadt ist die Hauptstadt von {c}?",
        ],
        "Die Hauptstadt von {c} ist {k}.",
    ),
    "ja": (
        [
            "{c}の首都はどこですか？",
            "{c}の首都を教えてください。",
            "{c}の首都は？",
            "{c}の首都は何ですか？",
            "{c}の首都を知っていますか？",
            "{c}の首都はどの都市ですか？",
        ],
        "{c}の首都は{k}です。",
    ),
    "zh": (
        [
            "{c}的首都是哪里？",
            "请告诉我{c}的首都。",
            "{c}的首都是什么？",
            "你知道{c}的首都吗？",
            "{c}的首都叫什么？",
            "{c}的首都是哪个城市？",
        ],
        "{c}的首都是{k}。",
    ),
}
FOLLOW_Q = {
    "es": ["¿Y {c}?", "¿Y la de {c}?"],
    "fr": ["Et {c} ?", "Et pour {c} ?"],
    "de": ["Und {c}?", "Und von {c}?"],
    "ja": ["{c}は？", "では、{c}は？"],
    "zh": ["那{c}呢？", "{c}呢？"],
}
SMALLTALK_L = {
    "es": [
        ("Hola[!|.|]|Buenos días[!|.|]|Hola, buenos días", "¡Hola! ¿En qué puedo ayudarte?"),
        ("¿Cómo estás?|Hola, ¿cómo estás?|¿Qué tal?", "Estoy muy bien, gracias. ¿Y tú?"),
        ("Gracias[!|.|]|Muchas gracias[!|.|]", "¡De nada!"),
        ("Adiós[!|.|]|Hasta luego[!|.|]", "¡Adiós! ¡Hasta pronto!"),
        ("¿Quién eres?|¿Cómo te llamas?", "Soy Swiftlet Tiny, un modelo de demostración muy pequeño."),
        ("¿Hablas español?", "Sí, pero solo un poco."),
    ],
    "fr": [
        ("Bonjour[ !|.|]|Salut[ !|.|]", "Bonjour ! Comment puis-je vous aider ?"),
        ("Comment ça va ?|Ça va ?|Comment allez-vous ?", "Je vais très bien, merci. Et vous ?"),
        ("Merci[ !|.|]|Merci beaucoup[ !|.|]", "De rien !"),
        ("Au revoir[ !|.|]|À bientôt[ !|.|]", "Au revoir et à bientôt !"),
        (
            "Qui es-tu ?|Comment tu t'appelles ?|Qui êtes-vous ?",
            "Je suis Swiftlet Tiny, un tout petit modèle de démonstration.",
        ),
        ("Parles-tu français ?|Parlez-vous français ?", "Oui, mais seulement un peu."),
    ],
    "de": [
        ("Hallo[!|.|]|Guten Tag[!|.|]|Guten Morgen[!|.|]", "Hallo! Wie kann ich dir helfen?"),
        ("Wie geht es dir?|Wie geht's?|Hallo, wie geht es dir?", "Mir geht es gut, danke. Und dir?"),
        ("Danke[!|.|]|Vielen Dank[!|.|]", "Gern geschehen!"),
        ("Tschüss[!|.|]|Auf Wiedersehen[!|.|]", "Auf Wiedersehen und bis bald!"),
        ("Wer bist du?|Wie heißt du?", "Ich bin Swiftlet Tiny, ein sehr kleines Demo-Modell."),
        ("Sprichst du Deutsch?", "Ja, aber nur ein wenig."),
    ],
    "ja": [
        ("こんにちは[。|！|]|おはようございます[。|！|]", "こんにちは！何かお手伝いしましょうか？"),
        ("お元気ですか？|元気ですか？", "はい、元気です。ありがとうございます。"),
        ("ありがとう[。|！|]|ありがとうございます[。|！|]", "どういたしまして！"),
        ("さようなら[。|！|]|またね[。|！|]", "さようなら！またね。"),
        ("あなたは誰ですか？|お名前は何ですか？", "私はSwiftlet Tinyという、とても小さなデモ用モデルです。"),
        ("日本語を話せますか？", "はい、少しだけ話せます。"),
    ],
    "zh": [
        ("你好[。|！|]|您好[。|！|]|早上好[。|！|]", "你好！有什么可以帮你的吗？"),
        ("你好吗？|你怎么样？", "我很好，谢谢。你呢？"),
        ("谢谢[。|！|]|非常感谢[。|！|]", "不客气！"),
        ("再见[。|！|]|拜拜[。|！|]", "再见！回头见。"),
        ("你是谁？|你叫什么名字？", "我是Swiftlet Tiny，一个很小的演示模型。"),
        ("你会说中文吗？", "会，但只会一点点。"),
    ],
}
SUM_L = {
    "es": ("¿Cuánto es {a} más {b}?", "{a} más {b} es {c}."),
    "fr": ("Combien font {a} plus {b} ?", "{a} plus {b} font {c}."),
    "de": ("Wie viel ist {a} plus {b}?", "{a} plus {b} ist {c}."),
    "ja": ("{a}足す{b}はいくつですか？", "{a}足す{b}は{c}です。"),
    "zh": ("{a}加{b}等于多少？", "{a}加{b}等于{c}。"),
}
UNKNOWN_L = {
    "es": "Lo siento, soy un modelo muy pequeño y no lo sé.",
    "fr": "Désolé, je suis un tout petit modèle et je ne le sais pas.",
    "de": "Tut mir leid, ich bin ein sehr kleines Modell und weiß das nicht.",
    "ja": "すみません、私はとても小さなモデルなので、わかりません。",
    "zh": "对不起，我是一个很小的模型，我不知道。",
}
UNKNOWN_L_Q = {
    "es": [
        "¿Quién ganó el partido ayer?",
        "¿Cuánto cuesta un coche nuevo?",
        "¿Qué tiempo hará mañana?",
        "¿Quién escribió ese libro?",
        "Explícame la filosofía de Kant.",
    ],
    "fr": [
        "Qui a gagné le match hier ?",
        "Combien coûte une voiture ?",
        "Quel temps fera-t-il demain ?",
        "Qui a écrit ce roman ?",
        "Explique-moi la physique quantique.",
    ],
    "de": [
        "Wer hat gestern das Spiel gewonnen?",
        "Was kostet ein neues Auto?",
        "Wie wird das Wetter morgen?",
        "Wer hat dieses Buch geschrieben?",
        "Erkläre mir die Quantenphysik.",
    ],
    "ja": [
        "昨日の試合は誰が勝ちましたか？",
        "明日の天気はどうですか？",
        "この本を書いたのは誰ですか？",
        "車はいくらですか？",
    ],
    "zh": ["昨天的比赛谁赢了？", "明天天气怎么样？", "这本书是谁写的？", "一辆车多少钱？"],
}
# English | Spanish | French | German | Japanese | Chinese
WORDS = table(
    """
hello|hola|bonjour|hallo|こんにちは|你好
goodbye|adiós|au revoir|auf Wiedersehen|さようなら|再见
thank you|gracias|merci|danke|ありがとう|谢谢
please|por favor|s'il vous plaît|bitte|お願いします|请
yes|sí|oui|ja|はい|是
no|no|non|nein|いいえ|不
water|agua|eau|Wasser|水|水
bread|pan|pain|Brot|パン|面包
milk|leche|lait|Milch|牛乳|牛奶
apple|manzana|pomme|Apfel|りんご|苹果
dog|perro|chien|Hund|犬|狗
cat|gato|chat|Katze|猫|猫
bird|pájaro|oiseau|Vogel|鳥|鸟
fish|pez|poisson|Fisch|魚|鱼
horse|caballo|cheval|Pferd|馬|马
house|casa|maison|Haus|家|房子
tree|árbol|arbre|Baum|木|树
flower|flor|fleur|Blume|花|花
sun|sol|soleil|Sonne|太陽|太阳
moon|luna|lune|Mond|月|月亮
star|estrella|étoile|Stern|星|星星
book|libro|livre|Buch|本|书
friend|amigo|ami|Freund|友達|朋友
school|escuela|école|Schule|学校|学校
mother|madre|mère|Mutter|母|母亲
father|padre|père|Vater|父|父亲
child|niño|enfant|Kind|子供|孩子
city|ciudad|ville|Stadt|都市|城市
red|rojo|rouge|rot|赤|红色
blue|azul|bleu|blau|青|蓝色
green|verde|vert|grün|緑|绿色
white|blanco|blanc|weiß|白|白色
black|negro|noir|schwarz|黒|黑色
one|uno|un|eins|一|一
two|dos|deux|zwei|二|二
three|tres|trois|drei|三|三
four|cuatro|quatre|vier|四|四
five|cinco|cinq|fünf|五|五
ten|diez|dix|zehn|十|十
love|amor|amour|Liebe|愛|爱
day|día|jour|Tag|日|天
night|noche|nuit|Nacht|夜|夜晚
good morning|buenos días|bonjour|guten Morgen|おはようございます|早上好
good night|buenas noches|bonne nuit|gute Nacht|おやすみなさい|晚安
""",
    "en",
    "es",
    "fr",
    "de",
    "ja",
    "zh",
)

# --- names and fillers -----------------------------------------------------------
NAMES = """Mia Leo Anna Ben Clara David Emma Felix Grace Hugo Ida Jonas Kira Lucas Maya Noah Olga Paul Rosa Sam
Tina Umar Vera Will Yuki Zoe Amir Bella Carlos Dana Elias Fatima George Hana Ivan Julia Karim Lena Marco Nina Oscar
Priya Quinn Ravi Sara Tom Ursula Victor Wendy Xavier Yara Zack Alice Bruno Chloe Diego Eva Finn Gina Henry Iris Jack
Kate Liam Mona Nora Otto Pia Rita Simon Tara Uma Vince Willa Yann Zara Arthur Betty Cora Dora Edgar Frida Gus Heidi
Ingrid Jim Kurt Lola Max Nick Olive Peter Ruth Stella Theo Viola Walter Aiko Bjorn Chen Dmitri Elena Farid Greta
Hiro Isabel Jamal Kenji Lucia Mei Nadia Omar Pablo Rana Sven Tariq Ulla Valentina Wei Ximena Yusuf Zeynep Ada Bob
Carol Dan Ella Frank Hannah Ian Jane Kevin Laura Mark Nancy Oliver Patrick Rachel Steve Thomas Vanessa""".split()
FRUIT = (
    "apples pears plums oranges cherries nuts marbles stickers coins books stamps shells balls "
    "cookies sweets pencils eggs flowers stones cards"
).split()
CITIES = sorted(
    {c["capital"] for c in COUNTRIES if c["name"] in FAMOUS}
    | set(
        "Barcelona Munich Hamburg Milan Naples Lyon Porto Osaka Shanghai Mumbai Sydney Toronto Chicago Boston Seattle Denver "
        "Miami Houston Dallas Glasgow Liverpool Geneva Zurich Krakow Antwerp Rotterdam Bergen Gothenburg Kyoto Sapporo "
        "Melbourne Auckland Lagos Casablanca Istanbul Dubai Montreal Vancouver Salzburg Venice Florence Valencia Sevilla "
        "Marseille Nice Bordeaux Cologne Frankfurt Leipzig Dresden Basel Turin Genoa Bologna Manchester Oxford".split()
    )
)
WORD_LIST = """apple banana river mountain window garden pencil yellow orange castle dragon music school winter summer
bridge candle butter cheese coffee forest island jacket kitten ladder magnet number ocean planet quiet rabbit silver
tiger umbrella violin water zebra book chair door eagle flower grape house ice jungle king lemon moon night owl paper
queen rain stone table uncle voice wagon bread cloud dream earth feather ghost honey insect joke kite letter mirror
needle onion parrot rocket shadow tunnel valley whale cat dog sun tree fish hat car star lamp ship box""".split()
EMOJI = "😀 😊 🎉 ⭐ 🌈 🐦 🚀 🌞 🍎 🐱 🐶 🌸 🔥 💡 🎵 ❤️ 🙂 😎 👍 🌍 🦊 🐢 🍀 ☀️".split()
THING_EMOJI = table(
    """
cat|🐱
dog|🐶
bird|🐦
fox|🦊
bear|🐻
panda|🐼
lion|🦁
tiger|🐯
cow|🐮
pig|🐷
frog|🐸
monkey|🐵
penguin|🐧
fish|🐟
whale|🐳
bee|🐝
butterfly|🦋
turtle|🐢
snail|🐌
owl|🦉
apple|🍎
banana|🍌
cherry|🍒
strawberry|🍓
pizza|🍕
cake|🎂
sun|☀️
moon|🌙
star|⭐
rainbow|🌈
fire|🔥
snowman|⛄
heart|❤️
tree|🌳
flower|🌸
house|🏠
car|🚗
rocket|🚀
ship|🚢
book|📖
""",
    "thing",
    "emoji",
)
