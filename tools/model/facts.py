"""What people tell an assistant to remember, and how they ask for it later.

A fact has a key, under which it is remembered, and a value. The same key comes of all ways to tell a fact
and to ask for it: "my cat is called Miso" and "what's my cat's name?" both lead to /cat-name.
"""
from dataclasses import dataclass

# Verbs: what is asked about them, and what follows them.
VERBS = {
    **dict.fromkeys("live work sleep stay sit".split(), ("where", "place")),
    **dict.fromkeys("leave arrive open close start begin end depart finish".split(), ("when", "time")),
    **dict.fromkeys("like love prefer hate need want drive speak play drink eat collect own use wear read cost weigh sell owe".split(), ("what", "object")),
}
# What I am: with whom or what, and the question for it.
STATES = {"allergic to": "what am i allergic to", "afraid of": "what am i afraid of", "good at": "what am i good at", "married to": "who am i married to",
          "interested in": "what am i interested in", "from": "where am i from", "responsible for": "what am i responsible for"}
MOVED = {"parked": "park", "put": "put", "left": "leave", "hid": "hide", "stored": "store", "placed": "place", "kept": "keep"}


@dataclass
class Fact:
    key: str
    value: str
    told: str     # "my cat is called Miso"
    asked: str    # "what is my cat called"
    named: str    # what comes after "tell me": "my cat's name"
    said: str     # by the assistant: "your cat is called Miso"
    meant: str    # by the assistant, of what was named or asked: "what your cat is called"


def key_of(thing):
    return "/" + thing.lower().replace("'s ", " ").replace("' ", " ").replace("'", "").replace(" ", "-")


def yours(value):
    """What the user has called "my" is called "your" by the assistant."""
    return " ".join("your" if word in ("my", "our") else word for word in value.split(" "))


def attribute(say):
    """My dentist is Ada."""
    (my, your), thing, value = say.article(), say.thing(), say.value()
    if thing[0].isupper():
        my = your = ""
    what = say.pick("what is", "what is", "what's", "what's", "what was", "whats", "where is", "where's", "when is", "when's", "who is", "who's", "how much is")
    named = say.pick(f"{my}{thing}", f"{my}{thing}", f"{my}{thing}", f"{say.pick('what', 'where', 'when', 'who')} {my}{thing} is")
    told = say.pick(*[f"{my}{thing} is {value}"] * 6, f"{my}{thing} is now {value}", f"{my}{thing} was {value}")
    return Fact(key_of(thing), value, told, f"{what} {my}{thing}", named, f"{your}{thing} is {yours(value)}", f"{your}{thing}")


def plural(say):
    """My keys are in the drawer."""
    (my, your), thing, value = say.article(), say.thing() + "s", say.value()
    what = say.pick("what are", "where are", "who are", "when are", "what were")
    return Fact(key_of(thing), value, f"{my}{thing} are {value}", f"{what} {my}{thing}", f"{my}{thing}", f"{your}{thing} are {yours(value)}", f"{your}{thing}")


def called(say):
    """My cat is called Miso."""
    (my, your), thing, value = say.article(), say.thing(), say.pick(say.full_name(), say.full_name(), say.words(1, 2))
    told = say.pick(f"{my}{thing} is called {value}", f"{my}{thing} is called {value}", f"{my}{thing} is named {value}", f"{my}{thing}'s name is {value}",
                    f"the name of {my}{thing} is {value}")
    asked = say.pick(f"what is {my}{thing} called", f"what's {my}{thing} called", f"what is {my}{thing}'s name", f"what's {my}{thing}'s name",
                     f"what is the name of {my}{thing}", f"what's the name of {my}{thing}", f"how is {my}{thing} called", f"what did i call {my}{thing}",
                     f"what was {my}{thing} called", f"what was {my}{thing}'s name")
    named = say.pick(f"what {my}{thing} is called", f"{my}{thing}'s name", f"the name of {my}{thing}")
    return Fact(key_of(thing + " name"), value, told, asked, named, f"{your}{thing} is called {value}", f"what {your}{thing} is called")


def relation(say):
    """Ada is my boss."""
    thing, value = say.thing(), say.full_name()
    return Fact(key_of(thing), value, f"{value} is {say.pick('my', 'my', 'our')} {thing}", f"{say.pick('who is', 'who is', 'whos', 'what is')} my {thing}",
                say.pick(f"my {thing}", f"who my {thing} is"), f"your {thing} is {value}", f"your {thing}")


def own_name(say):
    """My name is Ada."""
    value = say.full_name()
    told = say.pick(f"my name is {value}", f"my name's {value}", f"i am {value}", f"i'm {value}", f"call me {value}", f"i am called {value}", f"you can call me {value}")
    asked = say.pick("what is my name", "what's my name", "who am i", "what am i called", "do you know my name", "do you know who i am", "what do you call me")
    return Fact("/name", value, told, asked, say.pick("my name", "who i am", "what i am called"), f"your name is {value}", "your name")


def own_age(say):
    """I am 34."""
    value = str(say.random.randint(3, 99))
    told = say.pick(f"i am {value} years old", f"i'm {value} years old", f"i am {value}", f"my age is {value}")
    return Fact("/age", value, told, say.pick("how old am i", "what is my age"), say.pick("my age", "how old i am"), f"your age is {value}", "your age")


def own_state(say):
    """I'm allergic to peanuts."""
    state, value = say.pick(*STATES), say.words(1, 3)
    am = say.pick("i am", "i'm", "im")
    question = STATES[state]
    what = question.split()[0]
    return Fact(key_of(state.split()[0]), value, f"{am} {state} {value}", question, f"{what} i am {state}", f"you are {state} {value}", f"{what} you are {state}")


def deed(say):
    """I live in Oslo. My flight leaves at 18:40."""
    verb = say.pick(*VERBS)
    what, follows = VERBS[verb]
    value = {"place": say.place, "time": say.time, "object": lambda: say.pick("", "", "a ", "the ") + say.words(1, 3)}[follows]()
    if follows != "time" and say.chance(.6):
        return Fact(key_of(verb), value, f"i {verb} {value}", f"{what} do i {verb}", f"{what} i {verb}", f"you {verb} {yours(value)}", f"{what} you {verb}")
    (my, your), thing = say.article(), say.thing()
    return Fact(key_of(f"{thing} {verb}"), value, f"{my}{thing} {verb}s {value}", f"{what} does {my}{thing} {verb}", f"{what} {my}{thing} {verb}s",
                f"{your}{thing} {verb}s {yours(value)}", f"{what} {your}{thing} {verb}s")


def moved(say):
    """I parked the car on level 3."""
    (my, your), thing, value, verb = say.weighted({("my ", "your "): 1, ("the ", "the "): 1}), say.thing(), say.place(), say.pick(*MOVED)
    asked = say.pick(f"where did i {MOVED[verb]} {my}{thing}", f"where have i {verb} {my}{thing}", f"where is {my}{thing}")
    return Fact(key_of(thing), value, f"i {say.pick('', '', 'have ')}{verb} {my}{thing} {value}", asked,
                say.pick(f"where i {verb} {my}{thing}", f"where {my}{thing} is"), f"{your}{thing} is {yours(value)}", f"{your}{thing}")


KINDS = {attribute: 40, plural: 8, called: 12, relation: 4, own_name: 6, own_age: 2, own_state: 5, deed: 14, moved: 6}


def fact(say):
    return say.random.choices(list(KINDS), list(KINDS.values()))[0](say)


def telling(say, fact):
    """How the user tells a fact."""
    if say.chance(.35):
        return say.sentence(say.pick("", "", "", "", "by the way, ", "fyi, ", "ok, ", "hey, ", "well, ", "also, ") + fact.told)
    before, end = say.weighted({
        ("remember that {}", "."): 8, ("please remember that {}", "."): 4, ("remember: {}", "."): 3, ("remember {}", "."): 2, ("keep in mind that {}", "."): 2,
        ("please keep in mind that {}", "."): 1, ("note that {}", "."): 2, ("please note that {}", "."): 2, ("note: {}", "."): 1, ("don't forget that {}", "."): 2,
        ("do not forget that {}", "."): 1, ("make a note that {}", "."): 1, ("make a note: {}", "."): 1, ("write down that {}", "."): 1, ("save that {}", "."): 1,
        ("for later: {}", "."): 1, ("you should know that {}", "."): 1, ("i want you to remember that {}", "."): 1, ("i'd like you to remember that {}", "."): 1,
        ("can you remember that {}", "?"): 2, ("could you remember that {}", "?"): 2, ("could you please note that {}", "?"): 1, ("can you keep in mind that {}", "?"): 1,
        ("hey, remember that {}", "."): 1, ("remember that {}, please", "."): 1, ("hi, please remember that {}", "."): 1, ("remember this: {}", "."): 1,
    })
    return say.sentence(before.format(fact.told), end)


def asking(say, fact):
    """How the user asks for a fact."""
    if say.chance(.6):
        return say.question(fact.asked)
    before, end = say.weighted({
        ("tell me {}", "."): 5, ("please tell me {}", "."): 2, ("tell me {}, please", "."): 1, ("do you know {}", "?"): 4, ("do you remember {}", "?"): 4,
        ("can you tell me {}", "?"): 3, ("could you tell me {}", "?"): 2, ("look up {}", "."): 4, ("could you look up {}", "?"): 1, ("can you look up {}", "?"): 1,
        ("get {}", "."): 2, ("give me {}", "."): 2, ("show me {}", "."): 1, ("remind me {}", "."): 1, ("i forgot {}", "."): 2, ("i've forgotten {}", "."): 1,
        ("i forgot {}. what is it", "?"): 2, ("i'd like to know {}", "."): 1, ("i need {}", "."): 1, ("i want to know {}", "."): 1, ("what about {}", "?"): 1,
    })
    return say.sentence(before.format(fact.named), end)


def forgetting(say, fact):
    """How the user wants a fact to be forgotten."""
    text = say.pick("forget {}", "forget {}", "forget {}", "forget about {}", "delete {}", "remove {}", "erase {}").format(fact.named)
    return say.request(text)
