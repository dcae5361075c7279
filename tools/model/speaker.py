"""Says random things: words, numbers, addresses, names of tools; and says a request as people do."""
import pathlib
import random

WORDS = pathlib.Path(__file__).with_name("words.txt").read_text().split()  # rarer ones, from Debian's wamerican
COMMON_WORDS = pathlib.Path(__file__).with_name("common.txt").read_text().split()  # also those of the requests themselves
NAMES = """Ada Bob Carla Dmitri Eve Farid Grace Hugo Ines Jonas Kenji Lena Mara Nils Olga Pedro Quinn Rosa Sven Tara Anna Tom
Max Emma Mia Theo Yuki Omar Priya Liam Noah Zoe Felix Clara Ivan Nora Oscar Ruth Sami Wei""".split()
CITIES = """Berlin Paris Lagos Lima Oslo Kyoto Cairo Quito Riga Perth London Madrid Rome Tokyo Delhi Boston Vienna Dublin
Athens Seoul Sydney Toronto Chicago Prague""".split()
MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split()
PREPOSITIONS = "in|in|at|on|under|near|behind|with|from|above|below|next to|in front of".split("|")
CONSONANTS, VOWELS = "bcdfghjklmnprstvwz", "aeiou"
LETTERS_AND_DIGITS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
ACCENTED = "äöüßéèêçñøåłżčšáíóúâîôõãæœ"
OTHER_SCRIPTS = "жизньмирдомчай日本語東京水火안녕하세요مرحباαβγδ✓→€£°😀🎉"

# Things that people talk about, beside random ones.
THINGS = """cat,dog,door code,wifi password,birthday,wedding anniversary,phone number,address,passport,car,car key,house,flight,
meeting,dentist,doctor,boss,sister,brother,mother,father,son,daughter,wife,husband,friend,neighbour,landlord,teacher,plumber,rent,
budget,favourite food,favorite color,favorite song,locker number,alarm code,gate code,spare key,printer,server,project,shopping,
train,ticket,hotel,room,office,desk,computer,bike,garden,medicine,appointment,deadline,invoice,order,bank account,email,
account number,license plate,username,api key,pin,shoe size,recipe,team,manager,company,school,horse,parrot""".replace("\n", "").split(",")

# Words that also occur in calls and results: the model has to copy them like any other word.
WORDS_OF_TOOLS = """status error body message code key value name success true false null url content keys
total every minute fetch store remember health ping data result items id type""".split()

# What may stand around a request, with what it ends.
AROUND = [("{}", "."), ("please {}", "."), ("{}, please", "."), ("can you {}", "?"), ("could you {}", "?"), ("could you please {}", "?"),
          ("can you please {}", "?"), ("can you {} for me", "?"), ("would you {}", "?"), ("will you {}", "?"), ("i want you to {}", "."),
          ("i'd like you to {}", "."), ("i need you to {}", "."), ("hey, {}", "."), ("hi, {}", "."), ("hi, please {}", "."), ("ok, {}", "."),
          ("now {}", "."), ("{}, thanks", "."), ("go ahead and {}", "."), ("you can {}", "."), ("just {}", ".")]


class Speaker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *options):
        return self.random.choice(options)

    def chance(self, probability):
        return self.random.random() < probability

    def weighted(self, options):
        """Picks one of the keys of a dictionary, whose values are weights, and calls it if it is a function."""
        choice = self.random.choices(list(options), list(options.values()))[0]
        return choice() if callable(choice) else choice

    # How people say something

    def sentence(self, text, end=".", capital=True):
        """A text as people write it: with or without a capital letter and a sign at its end."""
        if capital and self.chance(.6) and text[0].isascii():
            text = text[0].upper() + text[1:]
        if self.chance(.6):
            text = text.replace(" i ", " I ").replace(" i'", " I'").replace(" i?", " I?")
            if text.startswith(("i ", "i'")):
                text = "I" + text[1:]
        if end == ".":
            return text + self.weighted({"": 10, ".": 9, "!": 2, " .": .2})
        return text + self.weighted({end: 16, "": 4, end + end: .5, " " + end: .5})

    def request(self, text, end=".", capital=True):
        """A sentence that asks for something to be done."""
        if self.chance(.45):
            around, end = self.pick(*AROUND)
            return self.sentence(around.format(text), end, capital or not around.startswith("{}"))
        return self.sentence(text, end, capital)

    def ask(self, text, end):
        """A request or a question; without an end, the text as it is."""
        return self.question(text) if end == "?" else self.request(text) if end else text

    def question(self, text):
        if self.chance(.15):
            text = self.pick("hey, ", "hi, ", "ok, ", "and ", "so ", "please, ", "sorry, ", "hm, ") + text
        if self.chance(.08):
            text += self.pick(" again", ", please", " please", " now")
        return self.sentence(text, "?")

    # Words

    def dictionary_word(self):
        return self.random.choice(COMMON_WORDS if self.chance(.35) else WORDS)

    def syllables(self):
        pairs = [self.pick(*CONSONANTS) + self.pick(*VOWELS) for _ in range(self.random.randint(1, 4))]
        return "".join(pairs) + self.pick("", self.pick(*CONSONANTS))

    def noise(self):
        return "".join(self.random.choices(LETTERS_AND_DIGITS, k=self.random.randint(3, 10)))

    def capitals(self):
        return self.pick("IP", "ID", "PIN", "API", "VAT", "DNS", "SIM", "TV", self.syllables().upper())

    def foreign_word(self):
        if self.chance(.3):
            return "".join(self.random.choices(OTHER_SCRIPTS, k=self.random.randint(1, 6)))
        letters = list(self.pick(self.dictionary_word(), self.syllables(), self.pick(*NAMES), self.pick(*CITIES)))
        for _ in range(self.pick(1, 1, 2)):
            letters[self.random.randrange(len(letters))] = self.pick(*ACCENTED)
        return "".join(letters)

    def word_of_tools(self):
        return self.pick(*WORDS_OF_TOOLS)

    def word(self):
        return self.weighted({
            self.dictionary_word: 50, self.syllables: 12, self.noise: 8, self.foreign_word: 7, self.word_of_tools: 6,
            self.pick(*NAMES): 6, self.pick(*CITIES): 6, self.dictionary_word().capitalize(): 5,
        })

    def words(self, least, most):
        return " ".join(self.word() for _ in range(self.random.randint(least, most)))

    def number(self):
        return self.random.randint(0, 10 ** self.random.randint(1, 5))

    def word_or_number(self, share_of_words):
        return self.word() if self.chance(share_of_words) else str(self.number())

    # What people talk about

    def thing(self):
        """What a thing is called: "wifi password", "dentist", "Ada's birthday"."""
        kinds = {self.dictionary_word: 76, self.syllables: 12, self.foreign_word: 5, self.word_of_tools: 5, self.noise: 2, self.capitals: 3}
        words = [self.weighted(kinds) for _ in range(self.pick(1, 1, 2, 2, 3))]
        if self.chance(.3):
            usual = self.pick(*THINGS).split()
            words = self.pick(usual, usual, words[:1] + usual[-1:], usual[:1] + words[:1])
        thing = " ".join(words)
        if self.chance(.15):
            thing = self.pick(self.name() + "'s ", self.dictionary_word() + "'s ", self.pick(*THINGS) + "'s ", "parents' ") + thing
        return thing

    def article(self):
        """What stands before a thing when the user says it, and when the assistant says it back."""
        return self.weighted({("", ""): 3, ("the ", "the "): 4, ("my ", "your "): 6, ("our ", "your "): 1})

    def name(self):
        return self.weighted({lambda: self.pick(*NAMES): 4, lambda: self.dictionary_word().capitalize(): 2, lambda: self.syllables().capitalize(): 2})

    def full_name(self):
        return self.pick("", "", "", "Mr ", "Mrs ", "Dr ") + self.name() + self.pick("", "", " " + self.name())

    def value(self):
        """What a thing is: a text, a number, a time, an address. The end of a sentence doesn't belong to it."""
        return self.weighted({
            self.plain_text: 34, self.punctuated_text: 16, self.number_as_text: 10, self.time_of_day: 6, self.mail_address: 6, self.url: 6,
            self.date: 6, self.place: 10, self.time: 6, self.code: 8, self.full_name: 6, self.amount: 4,
        }).rstrip(".!?,;: ") or "x"

    def plain_text(self):
        words = [self.word_or_number(.8) for _ in range(self.random.randint(1, 5))]
        if len(words) > 2 and self.chance(.15):
            words[-2] = "and"
        if self.chance(.15):
            words.insert(0, self.pick("a", "an", "the", "my", "very", "not"))
        if self.chance(.25):
            words = words[:2] + [self.pick(self.place, self.time)()]  # "due on Friday"
        return " ".join(words)

    def punctuated_text(self):
        words = [self.word_or_number(.85) for _ in range(self.random.randint(2, 7))]
        for i, word in enumerate(words):
            if self.chance(.25):
                words[i] = word + self.pick(",", ".", ";", ":", "!", "?", ")", "'s")
            elif self.chance(.08):
                words[i] = self.pick("(", "#", "@", "+", "-", "$") + word
            elif self.chance(.04):
                words[i] = f'"{word}"'
        return " ".join(words)

    def number_as_text(self):
        return str(self.number())

    def code(self):
        """A password, a phone number, an address in a network."""
        joined = self.pick("-", "-", ".", "_", ":").join(self.pick(self.word_of_tools(), self.dictionary_word(), self.noise(), str(self.number()))
                                                         for _ in range(self.random.randint(2, 4)))
        return self.pick(joined, joined, "{}.{}.{}.{}".format(*(self.random.randint(0, 255) for _ in range(4))), f"555-{self.random.randint(0, 9999):04d}")

    def amount(self):
        return f"{self.number()} {self.pick('euros', 'dollars', 'pounds', 'km', 'kg', 'percent', 'years', 'minutes', 'people')}"

    def time_of_day(self):
        return f"{self.random.randint(0, 23):02d}:{self.random.randint(0, 59):02d}"

    def date(self):
        return f"20{self.random.randint(20, 40)}-{self.random.randint(1, 12):02d}-{self.random.randint(1, 28):02d}"

    def day(self):
        number, month = self.random.randint(1, 31), self.pick(*MONTHS)
        return self.pick(f"{month} {number}", f"{number} {month}", f"the {number}th of {month}", self.pick(*WEEKDAYS), self.pick(*WEEKDAYS) + "s", month)

    def time(self):
        """When something is: "at 18:40", "on Friday"."""
        return self.pick("at " + self.time_of_day(), f"at {self.random.randint(1, 12)}", "on " + self.day(), "in " + self.pick(*MONTHS), self.day())

    def place(self):
        """Where something is: "in the kitchen drawer", "on level 3"."""
        where = self.pick(self.pick(*CITIES), self.words(1, 3), "the " + self.words(1, 3), "my " + self.dictionary_word(), f"level {self.random.randint(0, 20)}",
                          f"room {self.number()}", "the " + self.dictionary_word() + " " + self.dictionary_word())
        return f"{self.pick(*PREPOSITIONS)} {where}"

    def mail_address(self):
        return f"{self.pick(*NAMES).lower()}.{self.syllables()}@{self.syllables()}.com"

    def host(self):
        return self.pick(
            f"{self.syllables()}.example.com", f"api.{self.syllables()}.com", "example." + self.pick("com", "org", "net"),
            f"{self.dictionary_word()}.{self.pick('com', 'org', 'net', 'io', 'dev')}", f"www.{self.dictionary_word()}.com",
            f"{self.word_of_tools()}.{self.dictionary_word()}.com")

    def path(self):
        kinds = {self.dictionary_word: 2, self.word_of_tools: 1, self.syllables: 1, self.noise: 1, self.number_as_text: 1}
        path = "/".join(self.weighted(kinds) for _ in range(self.random.randint(0, 3)))
        if path and self.chance(.15):
            path += self.pick(".json", ".html", ".txt")
        if path or self.chance(.5):
            path = "/" + path
        if self.chance(.12):
            path += f"?{self.dictionary_word()}={self.pick(self.dictionary_word(), self.noise(), str(self.number()))}"
        return path

    def url(self):
        host = self.pick(self.host(), self.host(), f"127.0.0.1:{self.random.randint(1000, 65535)}", f"localhost:{self.random.randint(1000, 9999)}")
        return f"{self.pick('http', 'https', 'https')}://{host}{self.path()}"

    def file_name(self):
        return self.pick(self.dictionary_word(), self.syllables(), self.noise()) + self.pick(".md", ".txt", ".json", ".csv")

    def folder(self):
        return "/".join(self.pick(self.dictionary_word(), "skills", "docs", "notes") for _ in range(self.random.randint(1, 2)))

    def file(self):
        folders = [self.dictionary_word() for _ in range(self.random.randint(0, 2))]
        name = self.file_name() if self.chance(.8) else self.dictionary_word()
        return "os://" + "/".join(folders + [name])

    def path_of_key(self):
        return "/".join(self.pick(self.dictionary_word(), self.syllables(), self.noise(), str(self.number())) for _ in range(self.random.randint(2, 3)))

    def identifier(self):
        return "01" + "".join(self.random.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=24))

    def deed(self):
        """What a reminder is about: "call mum", "take out the bread"."""
        verb = self.pick("call", "water", "take", "buy", "send", "check", "feed", "pay", "write to", "pick up", "turn off", "take out", "clean",
                         "meet", "read", "look at", "visit", self.dictionary_word(), self.dictionary_word())
        return f"{verb} {self.pick('', '', 'the ', 'my ', 'some ')}{self.pick(self.thing(), self.words(1, 2), self.name())}"

    # Tools that the model doesn't know

    def new_tool_name(self):
        words = [self.dictionary_word() if self.chance(.7) else self.syllables() for _ in range(2)]
        words = [word.capitalize() + (self.dictionary_word().capitalize() if self.chance(.12) else "") for word in words]
        return "_".join(words)

    def new_parameters(self):
        """The parameters of a tool, by name, with their types."""
        names = [self.pick(self.dictionary_word(), self.syllables(), self.pick("text", "city", "title", "name", "to", "subject", "a", "b", "x", "message", "on"))
                 for _ in range(self.pick(0, 1, 1, 1, 2, 2, 3))]
        return {name: self.pick("string", "string", "string", "integer", "boolean") for name in names}

    def argument(self, kind):
        """A value of a type, and how the user says it."""
        if kind in ("integer", "number"):
            number = self.number()
            return number, str(number)
        if kind == "boolean":
            return self.pick((True, "true"), (False, "false"))
        text = self.value()
        while text.isdigit() or text in ("true", "false"):
            text = self.value()
        return text, text

    def result_of_new_tool(self):
        return self.weighted({
            lambda: {self.syllables(): self.value()}: 1,
            self.value: 2,
            self.number: 1,
            lambda: {self.syllables(): self.number(), self.syllables(): self.value()}: 1,
            lambda: [self.value() for _ in range(self.random.randint(0, 3))]: 1,
            lambda: {self.word_of_tools(): self.value(), self.syllables(): [self.word() for _ in range(self.random.randint(0, 3))],
                     self.dictionary_word(): self.pick(True, False, None, self.number())}: 1,
        })
