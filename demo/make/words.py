"""Common words without facts attached: for copying, spelling, made-up heroes and questions the model cannot answer."""

NOUNS = """
accident address airport album alarm ankle apron arch arrow artist attic award axe bag balcony ballet bandage bank
banner barn barrel basin basket bathtub battery bay beard bed belt bench bicycle bill blanket blender block board boot
border bottle bowl bracelet bracket branch brick broom bubble bucket buckle budget building bulb bullet bumper bundle
button cabin cabinet cable calendar camera camp canal candle cannon canvas cap captain carpet carriage cart cartoon
castle ceiling cellar cement chain chalk chapter charger chess chimney chord cigar cinema clay client cliff clinic
coal coast coin collar college comb comedy concert contract copper corner costume cottage couch counter coupon court
cousin cradle crane crown crystal cup cupboard curtain cushion customer cylinder dam dance deck degree delivery
dentist desk diary dice dinner diploma dish doll dome doorbell drawer drawing dress drum dryer dust earring elbow
elevator engine envelope eraser essay exam factory fan fashion faucet fence ferry fiddle film filter finger fireplace
flute foam folder fork fountain frame freezer fridge funnel furniture game garage gate gift glove glue goal gown grain
gravel grill guitar gym hall hammock handle hanger harbor hat hatch helmet hinge hoe hook hose hospital hotel hour hut
iron jar jeans jelly jersey jet jewel jigsaw journal jug juice kettle keyboard kitchen knee knife knob knot label lace
lawn lawyer leather lemonade lens lever lid lift lipstick locker log lottery luggage lunch machine magazine mailbox
marble market mask mast mattress meadow medal melody menu metal microphone mill mine minute mixer mop motor mud mug
muscle nail napkin necklace nest net newspaper notebook nurse nut oar office oil oven package paddle page paint
pajamas palace pan parade parcel park parking passport pasta path pavement pebble pedal pepper perfume pillow pilot
pin pipe plank plate platform plug pocket podcast pole pond pool porch poster pot powder printer prison prize pump
puppet purse puzzle quilt racket radio raft rail ramp razor receipt recipe record refrigerator restaurant ribbon rice
ring roof rope rubber rug ruler saddle salad salary salt sandal sauce sausage scale scissors screen screw sculpture
seat shampoo shelf shield shirt shovel shower sidewalk sink skateboard sketch ski skirt sleeve slipper soap soccer
sofa software soup speaker spice spoon stadium stair stamp statue stove strap straw string suitcase suit sugar sweater
swing sword syrup tail tape taxi teapot telephone temple tennis tent theater thread throne thumb ticket tie tile tire
toaster toilet tooth torch towel tower toy tractor traffic trailer tray treasure trophy trousers trumpet tub tube
tunnel turbine tweezers vacuum valve van vase vault vest video village vinegar wallet wardrobe warehouse wheel whistle
wig wire wrench wrist yacht yarn zipper
""".split()
VERBS = """
accept adjust admire adopt agree answer apply argue arrange attach avoid bake balance bend blame boil borrow bounce
breathe brush calm change chase check choose clap clean climb close collect compare complain connect cook copy count
cover create cross cry damage dance decide decorate defend deliver describe destroy dig divide draw dress drive drop
dry earn edit enjoy escape examine expand explore fasten fill fix float fold follow freeze frighten gather glue greet
grind guess hammer hang hate hide hire hug hunt imagine improve include inform install invent invite iron join juggle
kick knit knock label launch lean learn lift listen load lock mark match measure melt mend mix move nail negotiate
notice obey open order organise own pack paint park peel pick plan plant polish pour practise prefer press print
protect punch push race reach receive record reduce refuse relax rent repair replace rescue reverse roll rub sail scan
scrape scratch seal select sell separate serve sew shake share shave shine shout sign skip slice slide smell smile
sneeze solve sort spill spray squeeze stack stamp stare steer stir store stretch study surprise sweep swing switch
taste tear test throw tickle tie touch trace trade train trap travel trim trust turn twist unlock unpack visit vote
wander warn wash watch water weigh whisper wipe wrap yawn zip
""".split()
ADJECTIVES = """
able angry awful bitter blond bold broken calm careful cheap chilly clear clumsy common complete cosy crazy cruel
curly dangerous delicious dizzy dull eager elegant enormous equal exact expensive faint famous fancy final firm flat
foreign fresh frozen giant golden greedy green handsome harmless healthy heavy hollow honest huge icy ideal important
jealous juicy large legal local magic messy modern narrow nasty neat nervous ordinary pale perfect plain popular
powerful pretty private pure rare raw ready real red regular ripe round royal rusty scary secret serious sharp shiny
silent silly simple slim slippery smooth soft solid sore special spicy square steep sticky straight strange striped
sudden sunny tasty tender thirsty tired tough tropical unusual useful usual valuable violent warm weird wet wild wise
wonderful wooden wrong yellow young
""".split()
PHRASES = [
    "hello world",
    "good morning everyone",
    "the quick brown fox",
    "to be or not to be",
    "one two three",
    "peace and love",
    "see you tomorrow",
    "no problem",
    "well done",
    "keep calm",
    "time flies",
    "open the door",
    "let it be",
    "easy as pie",
    "a piece of cake",
    "better late than never",
    "practice makes perfect",
    "home sweet home",
    "the early bird",
    "once in a blue moon",
    "so far so good",
    "all is well",
    "never say never",
]
