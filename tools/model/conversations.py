"""Makes the conversations that the model inside Kernos is trained with.

A conversation is between a user, an assistant and its tools. The assistant calls tools by writing
<tool_call> JSON </tool_call>, reads the results, and answers in one short sentence. The words of the
user are random and come back in calls and answers, so that the model learns to copy them instead of
knowing them.

    python3 conversations.py          prints a few of them
    python3 conversations.py 400      prints prompts for oracle.mjs, one JSON text per line
"""
import json
import pathlib
import random
import sys

WORDS = pathlib.Path(__file__).with_name("words.txt").read_text().split()  # from Debian's wamerican
NAMES = "Ada Bob Carla Dmitri Eve Farid Grace Hugo Ines Jonas Kenji Lena Mara Nils Olga Pedro Quinn Rosa Sven Tara".split()
CITIES = "Berlin Paris Lagos Lima Oslo Kyoto Cairo Quito Riga Perth".split()
CONSONANTS, VOWELS = "bcdfghjklmnprstvwz", "aeiou"
LETTERS_AND_DIGITS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
ACCENTED = "äöüßéèêçñøåłżčšáíóúâîôõãæœ"
OTHER_SCRIPTS = "жизньмирдомчай日本語東京水火안녕하세요مرحباαβγδ✓→€£°😀🎉"

# Words that also occur in calls and results: the model has to copy them like any other word.
WORDS_OF_TOOLS = """status error body message code key value name success true false null url content keys
total every minute fetch store remember health ping data result items id type""".split()

# The tools that the model knows, with the parameters that it is shown.
KNOWN_TOOLS = {
    "Memory_Set": "key:string", "Memory_Get": "key:string", "Memory_Delete": "key:string", "Memory_List": "prefix:string",
    "Echo": "message:string", "Http_Fetch": "url:string", "VFS_Read": "uri:string", "VFS_Write": "uri:string",
    "Message_Search": "query:string", "Job_Start": "name:string,payload:any", "Syscall_Describe": "name:string",
}

ABOUT_ITSELF = ("I am a demonstration model, small enough to live inside Kernos. I remember, look up, fetch, read "
                "and call tools. For real work, connect a real model.")
SMALL_TALK = {
    "hello": "Hello! What can I do for you?",
    "hi": "Hello! What can I do for you?",
    "Hi there": "Hello! What can I do for you?",
    "who are you?": ABOUT_ITSELF,
    "what can you do?": ABOUT_ITSELF,
    "help": "Try: remember that the door code is 4711. Then: what is the door code?",
    "thanks": "You are welcome.",
    "thank you": "You are welcome.",
    "bye": "Goodbye!",
    "count to five": "one, two, three, four, five",
    "count to ten": "one, two, three, four, five, six, seven, eight, nine, ten",
    "tell me a story": "Once there was a ring of clay with many small cups. Each cup held one message. "
                       "Not one message was ever lost, and the ring was content. The end.",
}
NOT_UNDERSTOOD = "I am only a demonstration model and did not understand that. Try: remember that the door code is 4711."


class Speaker:
    """Says random things: words, numbers, addresses, and tools with random names."""

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

    # Words

    def dictionary_word(self):
        return self.random.choice(WORDS)

    def syllables(self):
        pairs = [self.pick(*CONSONANTS) + self.pick(*VOWELS) for _ in range(self.random.randint(1, 4))]
        return "".join(pairs) + self.pick("", self.pick(*CONSONANTS))

    def noise(self):
        return "".join(self.random.choices(LETTERS_AND_DIGITS, k=self.random.randint(3, 10)))

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
        kinds = {self.dictionary_word: 78, self.syllables: 12, self.foreign_word: 5, self.word_of_tools: 5}
        words = [self.weighted(kinds) for _ in range(self.pick(1, 1, 2, 2, 3))]
        if self.chance(.15):
            words = [self.pick(self.pick(*NAMES), self.dictionary_word()) + "'s"] + words[:2]
        return " ".join(words)

    def article(self):
        """What stands before a thing when the user says it, and when the assistant says it back."""
        return self.weighted({("", ""): 5, ("the ", "the "): 3, ("my ", "your "): 3, ("our ", "your "): 1})

    def value(self):
        """What a thing is: a text, a number, a time, an address."""
        return self.weighted({
            self.plain_text: 40, self.punctuated_text: 20, self.number_as_text: 10, self.time_of_day: 8,
            self.mail_address: 8, self.url: 7, self.date: 7,
        })

    def plain_text(self):
        return " ".join(self.word_or_number(.8) for _ in range(self.random.randint(1, 5)))

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

    def time_of_day(self):
        return f"{self.random.randint(0, 23):02d}:{self.random.randint(0, 59):02d}"

    def date(self):
        return f"20{self.random.randint(20, 40)}-{self.random.randint(1, 12):02d}-{self.random.randint(1, 28):02d}"

    def mail_address(self):
        return f"{self.pick(*NAMES).lower()}.{self.syllables()}@{self.syllables()}.com"

    def url(self):
        host = self.pick(
            f"127.0.0.1:{self.random.randint(1000, 65535)}", f"localhost:{self.random.randint(1000, 9999)}",
            f"{self.syllables()}.example.com", f"api.{self.syllables()}.com",
            f"{self.dictionary_word()}.{self.pick('com', 'org', 'net', 'io', 'dev')}",
            f"{self.word_of_tools()}.{self.dictionary_word()}.com")
        kinds = {self.dictionary_word: 2, self.word_of_tools: 1, self.syllables: 1, self.noise: 1, self.number_as_text: 1}
        path = "/".join(self.weighted(kinds) for _ in range(self.random.randint(0, 3)))
        url = f"{self.pick('http', 'https')}://{host}"
        if path or self.chance(.5):
            url += "/" + path
        if self.chance(.12):
            url += f"?{self.dictionary_word()}={self.pick(self.dictionary_word(), self.noise(), str(self.number()))}"
        return url

    def file(self):
        folders = [self.dictionary_word() for _ in range(self.random.randint(0, 2))]
        name = self.pick(self.dictionary_word(), self.syllables()) + self.pick(".md", ".txt", ".json", "")
        return "os://" + "/".join(folders + [name])

    def identifier(self):
        return "".join(self.random.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=self.pick(10, 26)))

    # Tools that the model doesn't know

    def new_tool_name(self):
        words = [self.dictionary_word() if self.chance(.7) else self.syllables() for _ in range(2)]
        return "_".join(word.capitalize() for word in words)

    def new_parameters(self):
        """The parameters of a tool, by name, with their types."""
        names = [self.pick(self.dictionary_word(), self.syllables()) for _ in range(self.pick(0, 1, 1, 1, 2, 2, 3))]
        return {name: self.pick("string", "string", "string", "integer", "boolean") for name in names}

    def argument(self, kind):
        """A value of a type, and how the user says it."""
        if kind == "integer":
            number = self.number()
            return number, str(number)
        if kind == "boolean":
            return self.pick((True, "true"), (False, "false"))
        text = self.value()
        return text, text

    def result_of_new_tool(self):
        return self.weighted({
            lambda: {self.syllables(): self.value()}: 1,
            self.value: 1,
            self.number: 1,
            lambda: {self.syllables(): self.number(), self.syllables(): self.value()}: 1,
            lambda: [self.value() for _ in range(self.random.randint(0, 3))]: 1,
            lambda: {self.word_of_tools(): self.value(), self.syllables(): [self.word() for _ in range(self.random.randint(0, 3))],
                     self.dictionary_word(): self.pick(True, False, None, self.number())}: 1,
        })


def as_json(value):
    return json.dumps(value, ensure_ascii=False)


def call(tool, /, **arguments):
    return "<tool_call>\n" + as_json({"name": tool, "arguments": arguments}) + "\n</tool_call>"


def key_of(thing):
    return "/" + thing.replace(" ", "-").replace("'s", "")


def capitalized(answer):
    return answer[0].upper() + answer[1:] if answer.startswith(("the ", "your ")) else answer


class Conversation:
    """A conversation as it grows: what the assistant can call, and what was said."""

    def __init__(self, speaker):
        self.speaker = speaker
        self.thinks = speaker.chance(.25)  # aloud, before it speaks
        self.turns = []  # (role, text)
        self.remembered = []  # things
        self.tools = {name: parameters for name, parameters in KNOWN_TOOLS.items() if speaker.chance(.78)}
        if "Memory_Set" in self.tools and speaker.chance(.5):
            self.tools["Memory_Set"] += ",value:any"
        self.new_tools = {speaker.new_tool_name(): speaker.new_parameters() for _ in range(speaker.pick(0, 0, 1, 1, 2, 3))}
        for name, parameters in self.new_tools.items():
            self.tools[name] = ",".join(f"{parameter}:{kind}" for parameter, kind in parameters.items())

    def user(self, text):
        self.turns.append(("user", text))

    def tool(self, result):
        self.turns.append(("tool", result))

    def assistant(self, text, thought=""):
        if self.thinks and thought:
            text = f"<think>{thought}</think>\n{text}"
        self.turns.append(("assistant", text))

    def lacks(self, tool, purpose):
        """Says so if the assistant doesn't have a tool, and returns whether that is the case."""
        if tool in self.tools:
            return False
        self.assistant(f"I have no tool to {purpose}.", f"The user wants me to {purpose}. I have no tool for that.")
        return True

    def fails(self, probability, calls=1):
        """Lets the calls fail with a probability, and returns whether they did."""
        say = self.speaker
        if not say.chance(probability):
            return False
        code = say.pick(403, 403, 409, 422, 500, 502, 503, 504)
        if code == 403:
            message = say.pick("Not approved", "The token may not call this", say.value())
            answer = f"That was not approved: {message}"
        elif code == 409:
            message = say.pick("The outcome is not known", "The outcome of this call is not known")
            answer = f"I don't know whether that happened, so I did not repeat it: {message}"
        else:
            message = say.pick("The disk is full", "Connection refused", "Fetch timed out", "Internal error", say.words(1, 6))
            answer = f"That did not work: {message}"
        for _ in range(calls):
            self.tool(as_json({"error": {"code": code, "message": message}}))
        self.assistant(answer, "The tool failed.")
        return True

    # What the user may want. Each method adds the whole exchange.

    def remember(self):
        say = self.speaker
        facts = [(say.article(), say.thing(), say.value()) for _ in range(say.pick(1, 1, 1, 2))]
        told = " and ".join(f"{theirs}{thing} is {value}" for (theirs, _), thing, value in facts)
        repeated = " and ".join(f"{ours}{thing} is {value}" for (_, ours), thing, value in facts)
        request = say.pick("remember that {}", "please remember that {}", "Remember: {}", "keep in mind that {}",
                           "note that {}", "Please note that {}").format(told)
        if len(facts) == 1 and say.chance(.35):
            (theirs, _), thing, value = facts[0]
            request = say.pick("store {value} under {thing}", "save {value} as {thing}", "set {thing} to {value}",
                               "remember {thing}: {value}").format(thing=theirs + thing, value=value)
        self.user(request)
        if self.lacks("Memory_Set", "remember things"):
            return
        calls = [call("Memory_Set", key=key_of(thing), value=value) for _, thing, value in facts]
        self.assistant("\n".join(calls), "The user wants me to remember something. I will store it.")
        if self.fails(.12, len(facts)):
            return
        for _ in facts:
            self.tool(say.pick('{"success": true}', '{"success":true}'))
        self.remembered += [thing for _, thing, _ in facts]
        self.assistant(f"I will remember that {repeated}.", "It is stored.")

    def recall(self):
        say = self.speaker
        questions = []
        for _ in range(say.pick(1, 1, 1, 2)):
            known = self.remembered and say.chance(.4)
            questions.append((say.article(), say.pick(*self.remembered) if known else say.thing()))
        asked = " and ".join(theirs + thing for (theirs, _), thing in questions)
        self.user(say.pick("what is {}?", "What is {}?", "what is {}", "tell me {}", "look up {}", "do you know {}?",
                           "What was {}?", "get {}").format(asked))
        if self.lacks("Memory_Get", "look things up"):
            return
        calls = [call("Memory_Get", key=key_of(thing)) for _, thing in questions]
        self.assistant("\n".join(calls), "The user asks for something that may be stored. I will look it up.")
        if self.fails(.08, len(questions)):
            return
        answers = []
        for (_, ours), thing in questions:
            if say.chance(.25):
                self.tool(as_json({"error": {"code": 404, "message": "Key not found: " + key_of(thing)}}))
                answers.append(f"I don't know {ours}{thing}")
            else:
                value = say.value()
                self.tool(say.pick(as_json(value), value))
                answers.append(f"{ours}{thing} is {value}")
        self.assistant(capitalized(" and ".join(answers) + "."), "I have the answer.")

    def forget(self):
        say = self.speaker
        (theirs, ours), thing = say.article(), say.thing()
        self.user(say.pick("forget {}", "please forget {}", "delete {}", "remove {}").format(theirs + thing))
        if self.lacks("Memory_Delete", "forget things"):
            return
        self.assistant(call("Memory_Delete", key=key_of(thing)), "The user wants me to forget something. I will delete it.")
        if not self.fails(.2):
            self.tool('{"success": true}')
            self.assistant(f"I have forgotten {ours}{thing}.", "It is deleted.")

    def list_keys(self):
        say = self.speaker
        thing = say.pick("", say.thing())
        self.user(f"what do you know about {thing}?" if thing else say.pick("what do you know?", "list everything you know", "list all keys"))
        if self.lacks("Memory_List", "list things"):
            return
        self.assistant(call("Memory_List", prefix=key_of(thing)), "The user wants a list. I will list the keys.")
        if self.fails(.15):
            return
        keys = [key_of(say.thing()) for _ in range(say.random.randint(0, 5))]
        self.tool(as_json({"keys": keys}))
        self.assistant(f"I know {', '.join(keys)}." if keys else "I know nothing about that.", "I have the list.")

    def echo(self):
        say = self.speaker
        text = say.value()
        self.user(say.pick("echo {}", "say {} through the kernel", "repeat {}").format(text))
        if self.lacks("Echo", "echo"):
            return
        self.assistant(call("Echo", message=text), "The user wants an echo.")
        if not self.fails(.1):
            self.tool(as_json({"echo": text}))
            self.assistant(f"The kernel says: {text}", "The echo has come back.")

    def fetch(self):
        say = self.speaker
        url, thing = say.url(), say.thing() if say.chance(.4) else None
        request = say.pick("fetch {}", "get {}", "what does {} say?", "please fetch {}").format(url)
        if thing:
            request += say.pick(" and remember it as {}", " and save it as {}", " and store it under {}").format(thing)
        self.user(request)
        if self.lacks("Http_Fetch", "fetch pages") or thing and self.lacks("Memory_Set", "remember things"):
            return
        self.assistant(call("Http_Fetch", url=url), "The user wants a page. I will fetch it.")
        if self.fails(.2):
            return
        status, body = say.pick(200, 200, 200, 200, 404, 500), say.value()
        self.tool(as_json({"status": status, "body": body}))
        if not thing:
            self.assistant(f"The server answered {status}: {body}", "The page is here.")
        elif status != 200:
            self.assistant(f"The server answered {status}, so I did not store it: {body}", "The page is an error.")
        else:
            self.assistant(call("Memory_Set", key=key_of(thing), value=body), "The page is here. Now I will store it.")
            if not self.fails(.1):
                self.tool('{"success": true}')
                self.assistant(f"I will remember that {thing} is {body}.", "It is stored.")

    def read_file(self):
        say = self.speaker
        file = say.file()
        self.user(say.pick("read {}", "show me {}", "what is in {}?", "open {}").format(file))
        if self.lacks("VFS_Read", "read files"):
            return
        self.assistant(call("VFS_Read", uri=file), "The user wants a file. I will read it.")
        if not self.fails(.2):
            text = say.value()
            self.tool(as_json({"uri": file, "content": text}))
            self.assistant(f"{file} says: {text}", "I have the file.")

    def write_file(self):
        say = self.speaker
        file, text = say.file(), say.value()
        self.user(say.pick("write {text} to {file}", "put {text} into {file}").format(text=text, file=file))
        if self.lacks("VFS_Write", "write files"):
            return
        self.assistant(call("VFS_Write", uri=file, content=text), "The user wants a file. I will write it.")
        if not self.fails(.2):
            self.tool(as_json({"uri": file, "size": len(text)}))
            self.assistant(f"I have written {file}.", "The file is written.")

    def search(self):
        say = self.speaker
        thing = say.thing()
        self.user(say.pick("search for {}", "find messages about {}", "when did we talk about {}?").format(thing))
        if self.lacks("Message_Search", "search"):
            return
        self.assistant(call("Message_Search", query=thing), "The user wants me to search.")
        if not self.fails(.15):
            found = say.random.randint(0, 4)
            self.tool(as_json({"messages": [{"id": say.identifier(), "type": "Memory.Set"} for _ in range(found)], "total": found}))
            self.assistant(f"I found {found} message{'' if found == 1 else 's'} about {thing}.", "The search is done.")

    def schedule(self):
        say = self.speaker
        times = {"minute": "* * * * *", "hour": "0 * * * *", "day": "0 0 * * *"}
        times |= {f"{n} minutes": f"*/{n} * * * *" for n in (2, 5, 10, 15, 30)}
        when = say.pick("hour", "day") if say.chance(.3) else say.pick("minute", *(time for time in times if time.endswith("minutes")))
        if say.chance(.6):
            url = say.url()
            what, name, payload = f"fetch {url}", "Http.Fetch", {"url": url}
        else:
            thing, value = say.thing(), say.value()
            what, name, payload = f"remember that {thing} is {value}", "Memory.Set", {"key": key_of(thing), "value": value}
        self.user(say.pick(f"every {when} {what}", f"{what} every {when}"))
        if self.lacks("Job_Start", "do things later"):
            return
        self.assistant(call("Job_Start", name=name, payload=payload, schedule=times[when]),
                       "The user wants this again and again. I will start a job.")
        if not self.fails(.15):
            job = say.identifier()
            self.tool(as_json({"jobId": job, "status": "pending"}))
            self.assistant(f"Job {job} will do that every {when}.", "The job is started.")

    def use_new_tool(self):
        say = self.speaker
        if not self.new_tools:
            return self.small_talk()
        if say.chance(.12):
            missing = say.new_tool_name()
            self.user(f"use {missing}")
            return self.assistant(f"I have no tool {missing}.", "I don't have that tool.")
        name = say.pick(*self.new_tools)
        arguments, spoken = {}, []
        for parameter, kind in self.new_tools[name].items():
            arguments[parameter], text = say.argument(kind)
            spoken.append(parameter + say.pick(" ", "=", ": ") + text)
        request = f"{say.pick('use', 'call', 'run', 'please call')} {say.pick(name, name, name.replace('_', '.'), name.replace('_', ' '))}"
        if spoken:
            request += " with " + say.pick(" and ", ", ").join(spoken)
        self.user(request)
        self.assistant(call(name, **arguments), f"The user wants {name}. I will call it.")
        if not self.fails(.15):
            result = as_json(say.result_of_new_tool())
            self.tool(result)
            self.assistant(f"{name} answered: {result}", "The tool has answered.")

    def small_talk(self):
        say = self.speaker
        request = say.pick(*SMALL_TALK)
        answer = SMALL_TALK[request]
        if say.chance(.12):
            request, answer = say.words(1, 8), NOT_UNDERSTOOD
        self.user(request)
        self.assistant(answer)


WANTS = {
    Conversation.remember: 16, Conversation.recall: 18, Conversation.forget: 4, Conversation.list_keys: 4, Conversation.echo: 6,
    Conversation.fetch: 12, Conversation.read_file: 7, Conversation.write_file: 5, Conversation.search: 5,
    Conversation.schedule: 7, Conversation.use_new_tool: 18, Conversation.small_talk: 8,
}


def conversation(speaker):
    """Returns one conversation as a list of (text, whether the model has to learn to write it)."""
    c = Conversation(speaker)
    for _ in range(speaker.pick(1, 1, 2, 2, 3)):
        speaker.random.choices(list(WANTS), list(WANTS.values()))[0](c)
    system = ["Think aloud."] if c.thinks else []
    if speaker.chance(.6):
        system.append(speaker.pick("You are helpful.", "Be brief.", "You are a demonstration model.", speaker.words(2, 60)))
    speaker.random.shuffle(system)
    tools = [f"{name}({parameters})" for name, parameters in c.tools.items()]
    speaker.random.shuffle(tools)
    turns = []
    if system:
        turns.append(("system", " ".join(system)))
    if tools:
        turns.append(("system", "Tools: " + " ".join(tools)))
    pieces = []
    for role, text in turns + c.turns:
        pieces += [(f"<|im_start|>{role}\n", False), (text + "<|im_end|>", role == "assistant"), ("\n", False)]
    return pieces


def prompt(speaker):
    """Returns a conversation up to where the assistant speaks."""
    pieces = conversation(speaker)
    at = speaker.pick(*(i for i, (_, own) in enumerate(pieces) if own))
    return "".join(text for text, _ in pieces[:at])


if __name__ == "__main__":
    speaker = Speaker(seed=1)
    if len(sys.argv) > 1:
        for _ in range(int(sys.argv[1])):
            print(as_json(prompt(speaker)))
    else:
        for _ in range(6):
            print("".join(text for text, _ in conversation(speaker)))
            print("=" * 60)
