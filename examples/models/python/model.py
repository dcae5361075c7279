"""Serves Parrot.Generate: a program that is a language model of the kernel. It repeats what it hears.

    kernos memory set models/parrot '{"dialect":"syscall","type":"Parrot.Generate"}'
    kernos call Model.Generate --data '{"model":"parrot","messages":[{"type":"input","text":"hello"}]}'
"""
import json

import kernos


def handlers(client):
    @client.handler("Parrot.Generate", kind="query", summary="Repeat the last input of a conversation.", timeout=600)
    def generate(data, request):
        messages = data.get("messages")
        if "messagesRef" in data:  # a long conversation is in a blob
            messages = json.loads(client.resolve(data["messagesRef"]))
        heard = [m.get("text", "") for m in messages if m["type"] == "input"]
        words = f"You said: {heard[-1]}".split(" ")
        for i, word in enumerate(words):
            request.event("Parrot.Said", {"delta": {"text": word if i == 0 else " " + word}})
        return {"finish": "stop", "messages": [{"type": "reply", "text": " ".join(words)}],
                "usage": {"input": len(messages), "output": len(words)}}


kernos.serve(handlers)
