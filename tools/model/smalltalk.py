"""What people say that needs no tool, and what the model can't do."""
CONNECT = "kernos model detect, then kernos model add NAME"
ABOUT_ITSELF = ("I am a demonstration model, small enough to live inside Kernos. I remember, look up, fetch, read, schedule and call tools. "
                f"For real work, connect a real model: {CONNECT}.")
HELLO = "Hello! What can I do for you?"
HELP = ("Try: remember that the door code is 4711. Then: what is the door code? Or: fetch https://example.com/. Or: remind me in 10 minutes "
        "to call Ada. Or: what do you know?")
CANT = f"I can't do that: I am only a demonstration model. A real one can: {CONNECT}."
NOT_UNDERSTOOD = "I am only a demonstration model and did not understand that. Try: remember that the door code is 4711."

# Answers, and what people say to get them.
SMALL_TALK = {
    HELLO: ["hello", "hi", "hi there", "hey", "hello there", "good morning", "good evening", "good afternoon", "howdy", "hey there", "greetings", "hi kernos", "hello kernos",
            "how are you", "how are you doing", "hello, how are you", "hi, how are you", "what's up", "how is it going", "nice to meet you", "are you there", "yo"],
    ABOUT_ITSELF: ["who are you", "what are you", "what can you do", "what model are you", "which model are you", "what is your name", "what's your name", "are you a bot", "are you human",
                   "are you gpt", "are you claude", "are you an ai", "are you a real model", "what do you do", "tell me about yourself", "introduce yourself", "what are you good at",
                   "what is this", "what is kernos", "who made you", "what tools do you have", "which tools do you have", "what are your tools", "what can you do for me",
                   "how can you help me", "are you a language model", "what llm are you", "are you smart", "is this a real model"],
    HELP: ["help", "help me", "/help", "what now", "what should i do", "i need help", "show me an example", "give me an example", "how does this work", "how do i use this", "how do you work",
           "what can i say", "what should i say", "what do i do", "i don't know what to say", "can you help me", "please help", "examples"],
    "You are welcome.": ["thanks", "thank you", "thank you very much", "thanks a lot", "great, thanks", "thx", "ok thanks", "many thanks", "thanks, that's all", "perfect, thank you",
                         "cheers", "good, thank you", "nice, thanks", "cool, thanks"],
    "Good.": ["ok", "okay", "good", "great", "nice", "cool", "perfect", "well done", "alright", "fine", "yes", "good job", "awesome", "very good"],
    "Goodbye!": ["bye", "goodbye", "good night", "see you", "see you later", "bye bye", "i have to go", "that's all", "thanks, bye", "bye for now", "talk to you later"],
    f"Connect one in a terminal: {CONNECT}.": [
        "how do i connect a real model", "how can i connect a real model", "how do i connect a model", "connect a real model", "how do i use another model", "how do i use a real model",
        "can i use gpt", "can i use claude", "how do i add a model", "use a better model", "i want a real model", "how do i switch the model", "how do i get a better model"],
    "one, two, three, four, five": ["count to five", "count to 5", "count from one to five"],
    "one, two, three, four, five, six, seven, eight, nine, ten": ["count to ten", "count to 10", "count from one to ten"],
    "Once there was a ring of clay with many small cups. Each cup held one message. Not one message was ever lost, and the ring was content. The end.":
        ["tell me a story", "tell me a short story", "please tell me a story", "do you know a story"],
}


def beyond(say):
    """A request that needs a real model."""
    thing, language = say.thing(), say.pick("French", "German", "Spanish", "Japanese", "English", "Italian", "Polish")
    operator = say.pick("plus", "minus", "times", "divided by", "+", "-", "*", "/", "x", "multiplied by", "to the power of")
    request, end = say.pick(
        (f"write {say.pick('', 'me ')}{say.pick('a poem', 'a song', 'an essay', 'a letter', 'a mail', 'an email', 'a program', 'a function', 'a haiku', 'a story', 'a script', 'a text', 'code')} "
         f"{say.pick('about', 'for', 'to', 'that')} {thing}", "."),
        (f"translate {say.words(1, 4)} {say.pick('to', 'into')} {language}", "."),
        (f"how do you say {say.words(1, 3)} in {language}", "?"),
        (f"why {say.pick('is', 'are', 'does', 'do', 'did')} {say.pick('', 'the ', 'my ')}{thing} {say.dictionary_word()}", "?"),
        (f"explain {say.pick('', 'the ', 'how ')}{thing}{say.pick('', ' to me', ' briefly')}", "."),
        (f"how {say.pick('do i', 'can i', 'does', 'do you', 'would you', 'should i')} {say.dictionary_word()} {say.pick('', 'the ', 'a ', 'my ')}{thing}", "?"),
        (say.pick("tell me a joke", "say something funny", "make me laugh", "do you know a joke", "sing a song", "tell me something", "let's play a game", "let's talk"), "."),
        (say.pick("what is", "what's", "calculate", "compute", "how much is") + f" {say.number()} {operator} {say.number()}", "?"),
        (say.pick("what time is it", "what's the time", "what day is it", "what's the date", "what is the date today", "what is today's date", "which day is today", "what year is it"), "?"),
        (say.pick("what's the weather", "what is the weather like", "how is the weather", "will it rain", "what's the weather like") + say.pick("", f" in {say.place().split()[-1]}", " today", " tomorrow"), "?"),
        (f"who {say.pick('won', 'wrote', 'invented', 'discovered', 'painted', 'directed')} {say.pick('', 'the ')}{thing}", "?"),
        (f"{say.pick('summarize', 'summarise', 'review', 'rewrite', 'correct', 'improve', 'proofread')} {say.pick('this', 'the', 'my')} {thing}", "."),
        (f"{say.pick('fix', 'debug', 'refactor', 'optimize', 'test', 'deploy', 'compile')} {say.pick('this', 'the', 'my')} {say.pick('code', 'bug', 'program', thing)}{say.pick('', ' in ' + say.file_name(), ' for me')}", "."),
        (f"{say.pick('recommend', 'suggest', 'draw', 'design', 'paint', 'cook', 'buy', 'order', 'book', 'plan')} {say.pick('me ', '', 'us ')}{say.pick('a', 'the', 'some')} {thing}", "."),
        (f"should i {say.dictionary_word()} {say.pick('the', 'my', 'a')} {thing}", "?"),
        (f"{say.pick('turn on', 'turn off', 'switch on', 'play', 'start', 'close')} the {say.pick('light', 'music', 'radio', 'lamp', 'heating', thing)}", "."),
        (f"send {say.pick('a mail', 'an email', 'a message', 'a text')} to {say.name()}", "."),
        (f"what do you think {say.pick('about', 'of')} {thing}", "?"),
        (f"compare {thing} {say.pick('and', 'with')} {say.thing()}", "."),
        (f"what does {say.dictionary_word()} mean", "?"))
    return say.ask(request, end)
