"""Makes the conversations that the model inside Kernos is trained with.

A conversation is between a user, an assistant and its tools. The assistant calls tools by writing
<tool_call> JSON </tool_call>, reads the results, and answers in one short sentence. The words of the
user are random and come back in calls and answers, so that the model learns to copy them instead of
knowing them. speaker.py has the words, facts.py what is remembered; the requests are here.

    python3 conversations.py          prints a few of them
    python3 conversations.py 400      prints prompts for oracle.mjs, one JSON text per line
"""
import dataclasses
import json
import sys

from facts import asking, fact, forgetting, key_of, telling, yours
from smalltalk import CANT, NOT_UNDERSTOOD, SMALL_TALK, beyond
from speaker import Speaker
from times import NO_CLOCK, at_a_time, when

# The tools that the model knows, with the parameters that it is shown.
USUAL_TOOLS = {
    "Memory_Set": "key:string", "Memory_Get": "key:string", "Memory_Delete": "key:string", "Memory_List": "prefix:string", "Http_Fetch": "url:string",
    "VFS_Read": "uri:string", "VFS_Write": "uri:string", "Message_Search": "query:string", "Job_Start": "name:string,payload:any",
}
KNOWN_TOOLS = USUAL_TOOLS | {
    "Memory_Search": "query:string", "VFS_List": "uri:string", "Echo": "message:string", "Job_List": "", "Job_Cancel": "jobId:string",
    "Crypto_Seal": "plaintext:string", "Syscall_Search": "query:string", "Syscall_Describe": "name:string",
}
SHOWN = 5  # elements of a list, at most


def as_json(value):
    return json.dumps(value, ensure_ascii=False)


def call(tool, /, **arguments):
    return "<tool_call>\n" + as_json({"name": tool, "arguments": arguments}) + "\n</tool_call>"


def capitalized(answer):
    return answer[0].upper() + answer[1:] if answer.startswith(("the ", "your ", "you ", "what ", "where ", "when ", "who ")) else answer


class Conversation:
    """A conversation as it grows: what the assistant can call, and what was said."""

    def __init__(self, speaker):
        self.speaker = speaker
        self.thinks = speaker.chance(.2)  # aloud, before it speaks
        self.turns = []  # (role, text)
        self.facts = []  # that were talked about
        self.job = None  # that was started last
        self.is_usual = speaker.chance(.4)
        share = 1 if speaker.chance(.2) else speaker.random.random()
        self.tools = dict(USUAL_TOOLS) if self.is_usual else {name: parameters for name, parameters in KNOWN_TOOLS.items() if speaker.chance(share)}
        if "Memory_Set" in self.tools and speaker.chance(.5):
            self.tools["Memory_Set"] += ",value:any"
        self.new_tools = {speaker.new_tool_name(): speaker.new_parameters() for _ in range(speaker.pick(0, 0, 1, 1, 2))}
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
        """Says so if the assistant doesn't have a tool, which is rare, and returns whether that is the case."""
        if tool in self.tools:
            return False
        if self.speaker.chance(.88):
            self.tools[tool] = KNOWN_TOOLS[tool]
            return False
        self.assistant(f"I have no tool to {purpose}.", f"The user wants me to {purpose}. I have no tool for that.")
        return True

    def fails(self, probability, calls=1):
        """Lets the calls fail with a probability, and returns whether they did."""
        say = self.speaker
        if not say.chance(probability):
            return False
        code = say.pick(403, 403, 404, 409, 422, 500, 502, 503, 504)
        if code == 403:
            message = say.pick("Not approved", "The token may not call this", f"The call of {say.new_tool_name().replace('_', '.')} was denied", say.value())
            answer = f"That was not approved: {message}"
        elif code == 409:
            message = say.pick("The outcome is not known", "The outcome of this call is not known")
            answer = f"I don't know whether that happened, so I did not repeat it: {message}"
        else:
            message = say.pick("The disk is full", "Connection refused", "Fetch timed out", "Internal error", say.words(1, 6), f"No host has the name {say.host()}",
                               f'No syscall is named "{say.new_tool_name().replace("_", ".")}"', f"{say.file()} doesn't exist", f"{say.dictionary_word()}: {say.plain_text()}")
            answer = f"That did not work: {message}"
        for _ in range(calls):
            self.tool(as_json({"error": {"code": code, "message": message}}))
        self.assistant(answer, "The tool failed.")
        return True

    def succeeds(self):
        self.tool(self.speaker.pick('{"success": true}', '{"success":true}'))

    # The memory. Each method adds a whole exchange.

    def store(self, facts, answer):
        """Stores facts, and gives the answer if that went well."""
        if self.lacks("Memory_Set", "remember things"):
            return
        calls = [call("Memory_Set", key=f.key, value=f.value) for f in facts]
        self.assistant("\n".join(calls), "The user wants me to remember something. I will store it.")
        if self.fails(.1, len(facts)):
            return
        for _ in facts:
            self.succeeds()
        self.facts += facts
        self.assistant(answer, "It is stored.")

    def remember(self):
        say = self.speaker
        f = fact(say)
        self.user(telling(say, f))
        self.store([f], f"I will remember that {f.said}.")

    def remember_two(self):
        say = self.speaker
        facts = [(say.article(), say.thing(), say.value()) for _ in range(2)]
        told = " and ".join(f"{my}{thing} is {value}" for (my, _), thing, value in facts)
        said = " and ".join(f"{your}{thing} is {yours(value)}" for (_, your), thing, value in facts)
        self.user(say.request(say.pick("remember that {}", "note that {}", "remember: {}", "keep in mind that {}").format(told)) if say.chance(.8) else say.sentence(told))
        facts = [dataclasses.replace(fact(say), key=key_of(thing), value=value, named=thing, meant=thing) for _, thing, value in facts]
        self.store(facts, f"I will remember that {said}.")
        self.facts = self.facts[:-2]

    def remember_as(self):
        """The user says under which name something is kept."""
        say = self.speaker
        (my, your), thing, value = say.article(), say.thing(), say.value()
        key = key_of(thing)
        if say.chance(.35):
            my, your, thing = "", "", say.path_of_key()
            key = "/" + thing
            thing = say.pick("", "/") + thing
        request = say.pick("store {value} under {thing}", "save {value} as {thing}", "set {thing} to {value}", "change {thing} to {value}",
                           "update {thing} to {value}", "remember {thing}: {value}", "remember {value} as {thing}", "keep {value} as {thing}")
        self.user(say.request(request.format(thing=my + thing, value=value)))
        f = dataclasses.replace(fact(say), key=key, value=value)
        self.store([f], f"I will remember that {your}{thing} is {yours(value)}.")
        self.facts = self.facts[:-1]

    def correct(self):
        say = self.speaker
        if not self.facts:
            return self.remember()
        old, value = self.facts[-1], say.value()
        if not old.said.endswith(yours(old.value)):
            return self.remember()
        new = dataclasses.replace(old, value=value, said=old.said[:-len(yours(old.value))] + yours(value))
        self.user(say.sentence(say.pick("no, it is {}", "no, it's {}", "actually, it is {}", "actually it's {}", "sorry, it's {}", "change it to {}",
                                        "that's wrong, it is {}", "i meant {}").format(value)))
        self.store([new], f"I will remember that {new.said}.")

    def add_to_list(self):
        say = self.speaker
        thing, item = say.pick("shopping list", "todo list", "to-do list", "packing list", say.thing() + " list", say.dictionary_word() + " list"), say.pick(say.words(1, 3), say.thing())
        (my, your) = say.pick(("my ", "your "), ("my ", "your "), ("the ", "the "), ("our ", "your "))
        self.user(say.request(say.pick("add {} to {}", "put {} on {}", "add {} to {}", "put {} onto {}").format(item, my + thing)))
        if self.lacks("Memory_Get", "look things up") or self.lacks("Memory_Set", "remember things"):
            return
        self.assistant(call("Memory_Get", key=key_of(thing)), "The user wants to add to a list. I will look it up first.")
        if self.fails(.06):
            return
        if say.chance(.5):
            self.tool(as_json({"error": {"code": 404, "message": "Key not found: " + key_of(thing)}}))
            value = item
        else:
            before = ", ".join(say.words(1, 2) for _ in range(say.random.randint(1, 4)))
            self.tool(say.pick(as_json(before), before))
            value = f"{before}, {item}"
        self.assistant(call("Memory_Set", key=key_of(thing), value=value), "I have the list. Now I will store it with the addition.")
        if self.fails(.08):
            return
        self.succeeds()
        self.assistant(f"I have added {item} to {your}{thing}.", "It is stored.")

    def recall(self):
        say = self.speaker
        if self.facts and say.chance(.5):
            f = say.pick(*self.facts)
            self.user(asking(say, f) if say.chance(.7) or f is not self.facts[-1] else say.question(say.pick("what is it", "what was it", "where is it", "do you still know it", "can you repeat that", "what was that")))
        else:
            f = fact(say)
            self.user(asking(say, f))
        if self.lacks("Memory_Get", "look things up"):
            return
        self.assistant(call("Memory_Get", key=f.key), "The user asks for something that may be stored. I will look it up.")
        if self.fails(.08):
            return
        if say.chance(.3):
            self.tool(as_json({"error": {"code": 404, "message": "Key not found: " + f.key}}))
            self.assistant(f"I don't know {f.meant}. I know only what you have told me.", "It isn't stored.")
        else:
            self.tool(say.pick(as_json(f.value), f.value))
            self.facts.append(f)
            self.assistant(capitalized(f.said) + ".", "I have the answer.")

    def recall_two(self):
        say = self.speaker
        questions = [(say.article(), say.thing()) for _ in range(2)]
        asked = " and ".join(my + thing for (my, _), thing in questions)
        self.user(say.sentence(say.pick("what is {}", "what's {}", "tell me {}", "look up {}", "do you know {}", "what are {}").format(asked), "?"))
        if self.lacks("Memory_Get", "look things up"):
            return
        self.assistant("\n".join(call("Memory_Get", key=key_of(thing)) for _, thing in questions), "The user asks for two things. I will look them up.")
        if self.fails(.08, 2):
            return
        answers = []
        for (_, your), thing in questions:
            if say.chance(.25):
                self.tool(as_json({"error": {"code": 404, "message": "Key not found: " + key_of(thing)}}))
                answers.append(f"I don't know {your}{thing}")
            else:
                value = say.value()
                self.tool(say.pick(as_json(value), value))
                answers.append(f"{your}{thing} is {yours(value)}")
        self.assistant(capitalized(" and ".join(answers)) + ".", "I have the answers.")

    def recall_key(self):
        """The user names the key itself."""
        say = self.speaker
        key, value = say.path_of_key(), say.value()
        self.user(say.request(say.pick("get {}", "look up {}", "what is in {}", "what is {}", "show me {}", "read the key {}", "what's under {}").format(say.pick("", "/") + key)))
        if self.lacks("Memory_Get", "look things up"):
            return
        self.assistant(call("Memory_Get", key="/" + key), "The user asks for something that may be stored. I will look it up.")
        if self.fails(.08):
            return
        if say.chance(.3):
            self.tool(as_json({"error": {"code": 404, "message": f"Key not found: /{key}"}}))
            self.assistant(f"I don't know /{key}. I know only what you have told me.", "It isn't stored.")
        else:
            self.tool(say.pick(as_json(value), value))
            self.assistant(f"/{key} is {yours(value)}.", "I have the answer.")

    def forget(self):
        say = self.speaker
        f = fact(say)
        if say.chance(.12):
            self.user(say.request(say.pick("forget everything", "delete everything", "forget all of it", "clear your memory", "forget all that you know")))
            return self.assistant("I can forget only one thing at a time. Try: forget the door code.")
        if say.chance(.25):
            self.user(say.request(say.pick("forget it", "forget that", "forget about it", "delete it", "delete that", "never mind, forget it")))
            if not self.facts:
                return self.assistant("I don't know what to forget. Try: forget the door code.")
            f = self.facts[-1]
        else:
            if self.facts and say.chance(.5):
                f = say.pick(*self.facts)
            self.user(forgetting(say, f))
        if self.lacks("Memory_Delete", "forget things"):
            return
        self.assistant(call("Memory_Delete", key=f.key), "The user wants me to forget something. I will delete it.")
        if not self.fails(.15):
            self.succeeds()
            self.facts = [other for other in self.facts if other is not f]
            self.assistant(f"I have forgotten {f.meant}.", "It is deleted.")

    def listed(self, all_of_them, name):
        """The elements of a list that the assistant is shown, as a result and as it says them."""
        shown = all_of_them[:SHOWN]
        result = {name: shown}
        spoken = ", ".join(shown)
        if more := len(all_of_them) - len(shown):
            result["more"] = more
            spoken += f" and {more} more"
        self.tool(as_json(result))
        return spoken

    def list_keys(self):
        say = self.speaker
        self.user(say.question(say.pick(
            "what do you know", "what do you know about me", "what did i ask you to remember", "what do you remember", "what do you remember about me",
            "what have you stored", "what did i tell you", "what have i told you", "what can you remember", "what is in the memory", "what is stored",
            "which things do you know", "do you know anything about me", "what have i asked you to remember")) if say.chance(.6) else say.request(say.pick(
                "list everything you know", "list all keys", "list everything", "show me everything you know", "tell me everything you know", "show me the memory",
                "list my notes", "list what you know", "tell me what you know about me", "list what i told you", "show all notes", "list the memory")))
        self.tell_keys()

    def tell_keys(self):
        say = self.speaker
        if self.lacks("Memory_List", "list things"):
            return
        self.assistant(call("Memory_List", prefix="/"), "The user wants to know what is stored. I will list the keys.")
        if not self.fails(.1):
            keys = [say.pick(fact(say).key, key_of(say.thing())) for _ in range(say.random.randint(0, 9))]
            spoken = self.listed(keys, "keys")
            self.assistant(f"I know {spoken}." if keys else "I know nothing yet. Try: remember that the door code is 4711.", "I have the list.")

    def search_memory(self):
        say = self.speaker
        (my, your), thing = say.article(), say.pick(say.thing(), say.thing(), say.name())
        self.user(say.question(say.pick("what do you know about {}", "do you know anything about {}", "what did i tell you about {}", 
                                        "what do you remember about {}", "is there anything about {}").format(my + thing)))
        if "Memory_Search" not in self.tools:
            return self.tell_keys()
        self.assistant(call("Memory_Search", query=thing), "The user wants to know what is stored. I will search the memory.")
        if self.fails(.1):
            return
        found = {fact(say).key: say.value() for _ in range(say.random.randint(0, 3))}
        self.tool(as_json({"found": [{"key": key, "value": value} for key, value in found.items()]}))
        spoken = ", ".join(f"{key} is {yours(value)}" for key, value in found.items())
        self.assistant(f"I know this: {spoken}." if found else f"I know nothing about {your}{thing}.", "The search is done.")

    # The web, files, messages

    def echo(self):
        say = self.speaker
        text = say.value()
        self.user(say.request(say.pick("echo {}", "say {} through the kernel", "repeat {}", "echo {}").format(text)))
        if self.lacks("Echo", "echo"):
            return
        self.assistant(call("Echo", message=text), "The user wants an echo.")
        if not self.fails(.1):
            self.tool(as_json({"echo": text}))
            self.assistant(f"The kernel says: {text}", "The echo has come back.")

    def body(self):
        """What a server answers with: a text, the text of a page, or JSON, cut where it is long."""
        say = self.speaker
        if say.chance(.4):
            body = say.result_of_new_tool()
            if isinstance(body, dict) and say.chance(.3):
                body["…"] = say.random.randint(1, 40)
            elif isinstance(body, list) and say.chance(.3):
                body.append("…")
            return body, body if isinstance(body, str) else as_json(body)
        text = say.pick(say.value(), say.words(3, 25), " ".join(say.punctuated_text() for _ in range(3)), "") + say.pick("", "", "…")
        return text, text

    def fetch(self):
        say = self.speaker
        spoken = url = say.url()
        if say.chance(.12):
            spoken = say.host() + say.path()
            url = "https://" + spoken
        thing = say.thing() if say.chance(.25) else None
        request, end = say.pick(("fetch {}", "."), ("fetch {}", "."), ("get {}", "."), ("what does {} say", "?"), ("open {}", "."), ("what's on {}", "?"), ("what is on {}", "?"),
                                ("what is at {}", "?"), ("what's at {}", "?"), ("show me {}", "."), ("show me what {} says", "."), ("read {}", "."), ("download {}", "."),
                                ("check {}", "."), ("look at {}", "."), ("load {}", "."), ("is {} up", "?"), ("does {} work", "?"), ("what's in {}", "?"), ("go to {}", "."),
                                ("visit {}", "."), ("call {}", "."), ("fetch the page {}", "."), ("fetch {} and tell me what it says", "."), ("tell me what is on {}", "."),
                                ("open {} and tell me what's there", "."), ("{}", ""))
        if thing:
            request, end = say.pick("fetch {}", "get {}", "download {}") + say.pick(" and remember it as ", " and save it as ", " and store it under ", " and keep it as ") + thing, "."
        self.user(say.ask(request.format(spoken), end))
        if self.lacks("Http_Fetch", "fetch pages") or thing and self.lacks("Memory_Set", "remember things"):
            return
        self.assistant(call("Http_Fetch", url=url), "The user wants a page. I will fetch it.")
        if self.fails(.2):
            return
        status, (body, read) = say.pick(200, 200, 200, 200, 404, 500, 301), self.body()
        self.tool(as_json({"status": status, "body": body}))
        if not thing:
            self.assistant(f"The server answered {status}: {read}" if read else f"The server answered {status}, with an empty page.", "The page is here.")
        elif status != 200:
            self.assistant(f"The server answered {status}, so I did not store it.", "The page is an error.")
        else:
            self.assistant(call("Memory_Set", key=key_of(thing), value=body), "The page is here. Now I will store it.")
            if not self.fails(.1):
                self.succeeds()
                cut = read.endswith("…") or '"…"' in read
                self.assistant(f"I have stored {'the beginning of ' if cut else ''}the page as {thing}.", "It is stored.")

    def read_file(self):
        say = self.speaker
        file = spoken = say.file()
        if say.chance(.35):
            spoken = say.pick("", "", "the file ", "file ") + say.file_name()
            file = "os://" + spoken.removeprefix("the ").removeprefix("file ")
        elif say.chance(.2):
            spoken = "the file " + spoken
        request, end = say.pick(("read {}", "."), ("show me {}", "."), ("what is in {}", "?"), ("what's in {}", "?"), ("open {}", "."), ("print {}", "."),
                                ("what does {} say", "?"), ("read {} to me", "."), ("read me {}", "."), ("show {}", "."), ("tell me what is in {}", "."))
        self.user(say.ask(request.format(spoken), end))
        if self.lacks("VFS_Read", "read files"):
            return
        self.assistant(call("VFS_Read", uri=file), "The user wants a file. I will read it.")
        if not self.fails(.2):
            text = say.pick(say.value(), say.words(3, 20) + say.pick("", "…"), "")
            self.tool(as_json({"uri": file, "content": text}))
            self.assistant(f"{file} says: {text}" if text else f"{file} is empty.", "I have the file.")

    def write_file(self):
        say = self.speaker
        file, text = say.file(), say.value()
        spoken = file
        if say.chance(.2):
            spoken = say.file_name()
            file = "os://" + spoken
        spoken = say.pick("", "", "the file ", "a file ") + spoken
        self.user(say.request(say.pick("write {text} to {file}", "put {text} into {file}", "write {text} into {file}", "save {text} to {file}", "save {text} in {file}",
                                       "write the text {text} to {file}", "save the text {text} in {file}", "create {file} with {text}",
                                       "create {file} with the text {text}", "make {file} that says {text}").format(text=text, file=spoken)))
        if self.lacks("VFS_Write", "write files"):
            return
        self.assistant(call("VFS_Write", uri=file, content=text), "The user wants a file. I will write it.")
        if not self.fails(.2):
            self.tool(as_json({"uri": file, "size": len(text)}))
            self.assistant(f"I have written {file}.", "The file is written.")

    def list_files(self):
        say = self.speaker
        folder = "os://" + (say.folder() if say.chance(.5) else "")
        if folder == "os://":
            self.user(say.question(say.pick("what files are there", "which files are there", "what files do you have", "what files do i have", "are there any files", "what files can you read")) if say.chance(.5)
                      else say.request(say.pick("list my files", "list the files", "list all files", "show me the files", "show me my files", "list files", "list os://", "show the files")))
        else:
            self.user(say.request(say.pick("list {}", "list the files in {}", "what is in the folder {}", "what's in the folder {}", "show me the folder {}", "what files are in {}",
                                           "which files are in {}").format(folder)))
        if self.lacks("VFS_List", "list files"):
            return
        self.assistant(call("VFS_List", uri=folder), "The user wants to know which files are there. I will list them.")
        if not self.fails(.15):
            names = [say.pick(say.file_name(), say.dictionary_word()) for _ in range(say.random.randint(0, 8))]
            spoken = self.listed(names, "entries")
            self.assistant(f"{folder} has {spoken}." if names else f"{folder} is empty.", "I have the list.")

    def search(self):
        say = self.speaker
        (my, _), query = say.article(), say.pick(say.thing(), say.thing(), say.words(1, 3))
        request, end = say.pick(("search for {}", "."), ("search for {}", "."), ("find messages about {}", "."), ("find {} in the history", "."), ("search the history for {}", "."),
                                ("look through the messages for {}", "."), ("search the messages for {}", "."), ("find everything about {}", "."), ("search {}", "."),
                                ("when did we talk about {}", "?"), ("when did i talk about {}", "?"), ("did we talk about {}", "?"), ("did i ever mention {}", "?"),
                                ("have we talked about {}", "?"), ("did i say something about {}", "?"), ("when did i ask about {}", "?"), ("have i ever asked about {}", "?"),
                                ("are there messages about {}", "?"), ("did we ever speak about {}", "?"), ("have i mentioned {}", "?"))
        self.user(say.ask(request.format(my + query), end))
        if self.lacks("Message_Search", "search"):
            return
        self.assistant(call("Message_Search", query=query), "The user wants me to search.")
        if not self.fails(.15):
            total = say.pick(0, 1, 2, 3, say.random.randint(4, 500))
            self.tool(as_json({"total": total}))
            self.assistant(f"I found {total} message{'' if total == 1 else 's'} about {query}.", "The search is done.")

    # Jobs

    def start_job(self, name, payload, time, answer):
        if self.lacks("Job_Start", "do things later"):
            return
        self.assistant(call("Job_Start", name=name, payload=payload, **time), "The user wants this later. I will start a job.")
        if not self.fails(.12):
            self.job = self.speaker.identifier()
            self.tool(as_json({"jobId": self.job, "status": "pending"}))
            self.assistant(answer.format(job=self.job), "The job is started.")

    def schedule(self):
        say = self.speaker
        spoken, said, time = when(say)
        if say.chance(.65):
            url = say.url()
            what, name, payload = say.pick("fetch", "fetch", "get", "check", "load", "call") + " " + url, "Http.Fetch", {"url": url}
        else:
            f = fact(say)
            what, name, payload = f"remember that {f.told}", "Memory.Set", {"key": f.key, "value": f.value}
        self.user(say.request(say.pick(f"{spoken} {what}", f"{spoken}, {what}", f"{what} {spoken}")))
        self.start_job(name, payload, time, "Job {job} will do that " + said + ".")

    def remind(self):
        say = self.speaker
        spoken, said, time = when(say)
        deed = say.deed()
        if time.get("delay") and say.chance(.15):
            length = spoken.removeprefix("in ")
            request = say.pick(f"set a reminder in {length}: {deed}", f"set a reminder for {length}: {deed}", f"set a timer for {length} to {deed}", f"set a reminder for {length} to {deed}")
        else:
            request = say.pick(f"remind me {spoken} to {deed}", f"remind me {spoken} to {deed}", f"remind me to {deed} {spoken}", f"{spoken} remind me to {deed}",
                               f"{spoken}, remind me to {deed}", f"tell me {spoken} to {deed}")
        self.user(say.request(request))
        self.start_job("Echo", {"message": deed}, time, "Job {job} will echo that " + said + "; kernos watch shows it.")

    def remind_at_a_time(self):
        """The model doesn't know what time it is."""
        self.user(at_a_time(self.speaker))
        self.assistant(NO_CLOCK)

    def list_jobs(self):
        say = self.speaker
        self.user(say.question(say.pick("what jobs are there", "which jobs are there", "are there any jobs", "what is running", "what is scheduled", "what's scheduled", "which jobs run",
                                        "what reminders do i have", "which reminders are there", "what did i schedule", "are any jobs waiting")) if say.chance(.5)
                  else say.request(say.pick("list the jobs", "list all jobs", "list my jobs", "show me the jobs", "show me all jobs", "list jobs", "list my reminders", "show the reminders",
                                            "show me what is scheduled", "list what is scheduled")))
        if self.lacks("Job_List", "list jobs"):
            return
        self.assistant(call("Job_List"), "The user wants to know which jobs there are.")
        if not self.fails(.1):
            jobs = [f"{say.pick('Http.Fetch', 'Echo', 'Memory.Set', say.new_tool_name().replace('_', '.'))} ({say.pick('pending', 'pending', 'running', 'completed', 'failed')})"
                    for _ in range(say.random.randint(0, 7))]
            spoken = self.listed(jobs, "jobs")
            self.assistant(f"There are these jobs: {spoken}." if jobs else "There are no jobs.", "I have the list.")

    def cancel_job(self):
        say = self.speaker
        if self.job and say.chance(.7):
            job = self.job
            self.user(say.request(say.pick("cancel it", "stop it", "cancel that", "stop that", "cancel the job", "stop that job", "cancel the reminder", "never mind, cancel it")))
        elif not self.job and say.chance(.25):
            self.user(say.request(say.pick("cancel it", "stop it", "cancel the job")))
            return self.assistant("I don't know which job you mean. Give its id: cancel job ID.")
        else:
            job = say.identifier()
            self.user(say.request(say.pick("cancel job {}", "stop job {}", "cancel {}", "stop {}", "cancel the job {}", "end the job {}").format(job)))
        if self.lacks("Job_Cancel", "cancel jobs"):
            return
        self.assistant(call("Job_Cancel", jobId=job), "The user wants me to cancel a job.")
        if not self.fails(.15):
            canceled = say.chance(.8)
            self.tool(as_json({"jobId": job, "canceled": canceled}))
            self.assistant("The job is canceled." if canceled else "The job had ended already.", "It is done.")

    # Secrets and other tools

    def seal(self):
        say = self.speaker
        secret = say.pick(say.noise(), say.code(), say.words(1, 2))
        self.user(say.request(say.pick("seal {}", "encrypt {}", "seal the secret {}", "seal the password {}", "encrypt the password {}", "seal my key {}", "encrypt my key {}",
                                       "seal my password {}", "seal the text {}").format(secret)))
        if self.lacks("Crypto_Seal", "seal secrets"):
            return
        self.assistant(call("Crypto_Seal", plaintext=secret), "The user wants me to seal a secret.")
        if not self.fails(.12):
            self.tool(say.pick("pwenc:v1:", "pwenc:v2:") + say.noise() + "…")
            self.assistant("It is sealed. The result of the call is the sealed text.", "It is sealed.")

    def find_tool(self):
        say = self.speaker
        thing = say.pick(say.dictionary_word(), say.thing(), say.words(1, 2))
        self.user(say.request(say.pick("find a tool for {}", "find a tool that can {}", "is there a tool for {}", "which tool is for {}", "find a syscall for {}", "search the tools for {}",
                                       "look for a tool that does {}", "do you have a tool for {}", "find tools for {}", "find a tool that {}").format(thing)))
        if self.lacks("Syscall_Search", "search for tools"):
            return
        self.assistant(call("Syscall_Search", query=thing), "The user looks for a tool. I will search for one.")
        if not self.fails(.1):
            names = [say.new_tool_name().replace("_", ".") for _ in range(say.random.randint(0, 7))]
            spoken = self.listed(names, "syscalls")
            self.assistant(f"These fit: {spoken}." if names else "I found no tool for that.", "The search is done.")

    def describe_tool(self):
        say = self.speaker
        name = say.pick(*KNOWN_TOOLS, *(say.new_tool_name() for _ in range(20))).replace("_", ".")
        self.user(say.request(say.pick("describe {}", "describe the tool {}", "what does {} do", "describe the syscall {}", "what does the tool {} do").format(name)))
        if self.lacks("Syscall_Describe", "describe tools"):
            return
        self.assistant(call("Syscall_Describe", name=name), "The user wants to know a tool.")
        if not self.fails(.15):
            summary = say.words(3, 12).capitalize()
            self.tool(as_json({"name": name, "summary": summary + "."}))
            self.assistant(f"{name}: {summary}.", "I have the description.")

    def use_new_tool(self):
        """A tool is called by its name, also one that isn't shown: then a number is meant where digits stand."""
        say = self.speaker
        if self.new_tools and say.chance(.6):
            name = say.pick(*self.new_tools)
            parameters = self.new_tools[name]
        else:
            name, parameters = say.new_tool_name(), say.new_parameters()
        arguments, spoken = {}, []
        for parameter, kind in parameters.items():
            arguments[parameter], text = say.argument(kind)
            spoken.append(parameter + say.pick(" ", " ", "=", ": ", " = ") + text)
        request = f"{say.pick('use', 'call', 'run')} {say.pick('', '', 'the tool ')}{say.pick(name, name.replace('_', '.'), name.replace('_', '.'), name.replace('_', ' '))}"
        if say.chance(.12) and arguments:
            request += " with " + as_json(arguments)
        elif spoken:
            request += say.pick(" with ", " with ", ": ") + say.pick(" and ", ", ").join(spoken)
        self.user(say.request(request))
        self.assistant(call(name, **arguments), f"The user wants {name}. I will call it.")
        if not self.fails(.2):
            result = say.result_of_new_tool()
            result = result if isinstance(result, str) and say.chance(.6) else as_json(result)
            self.tool(result)
            self.assistant(f"{name} answered: {result}", "The tool has answered.")

    # Talk

    def small_talk(self):
        say = self.speaker
        answer = say.pick(*SMALL_TALK)
        text = say.pick(*SMALL_TALK[answer])
        self.user(say.sentence(text, "?" if text.split()[0] in ("who", "what", "how", "are", "do", "which", "can", "is") else "."))
        self.assistant(answer)

    def too_hard(self):
        self.user(beyond(self.speaker))
        self.assistant(CANT)

    def nonsense(self):
        say = self.speaker
        self.user(say.sentence(say.pick(say.words(1, 8), say.words(1, 3), say.noise(), " ".join(say.syllables() for _ in range(say.random.randint(1, 4))))))
        self.assistant(NOT_UNDERSTOOD)


WANTS = {
    Conversation.remember: 24, Conversation.remember_two: 4, Conversation.remember_as: 7, Conversation.correct: 4, Conversation.add_to_list: 5,
    Conversation.recall: 26, Conversation.recall_two: 3, Conversation.recall_key: 6, Conversation.forget: 9, Conversation.list_keys: 6,
    Conversation.search_memory: 4, Conversation.echo: 4, Conversation.fetch: 14, Conversation.read_file: 7, Conversation.write_file: 6,
    Conversation.list_files: 4, Conversation.search: 7, Conversation.schedule: 9, Conversation.remind: 9, Conversation.remind_at_a_time: 2,
    Conversation.list_jobs: 4, Conversation.cancel_job: 4, Conversation.seal: 4, Conversation.find_tool: 3, Conversation.describe_tool: 2,
    Conversation.use_new_tool: 18, Conversation.small_talk: 9, Conversation.too_hard: 8, Conversation.nonsense: 4,
}


def conversation(speaker):
    """Returns one conversation as a list of (text, whether the model has to learn to write it)."""
    c = Conversation(speaker)
    for _ in range(speaker.pick(1, 1, 2, 2, 3, 4)):
        speaker.random.choices(list(WANTS), list(WANTS.values()))[0](c)
    system = ["Think aloud."] if c.thinks else []
    if speaker.chance(.4):
        system.append(speaker.pick("You are helpful.", "Be brief.", "You are a demonstration model.", speaker.words(2, 40)))
    speaker.random.shuffle(system)
    tools = [f"{name}({parameters})" for name, parameters in c.tools.items()]
    if not c.is_usual:
        speaker.random.shuffle(tools)
    turns = [("system", " ".join(system))] if system else []
    turns += [("system", "Tools: " + " ".join(tools))] if tools else []
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
