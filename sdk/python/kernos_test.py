"""Tests kernos.py beside a daemon, over the wire that the argument names."""
import os
import sys
import threading

import kernos

TYPE = "Text.Python" + sys.argv[1].capitalize()  # a name belongs to the caller that registered it first


def connect():
    if sys.argv[1] == "http":
        return kernos.Client(os.environ["TEST_URL"], token=os.environ["TEST_TOKEN"])
    if sys.argv[1] == "socket":
        return kernos.Client(socket=os.environ["TEST_SOCKET"])
    return kernos.Client()


def fails(code, function):
    try:
        value = function()
    except kernos.Error as e:
        assert e.code == code, e
        return e
    raise AssertionError(f"{value} and not {code}")


with connect() as client:
    # Calls
    key = "sdk/python/" + sys.argv[1]
    assert client.command("Memory.Set", {"key": key, "value": ["grün", 1]}) == {"success": True}
    assert client.query("Memory.Get", {"key": key}) == ["grün", 1]
    assert "missing" in fails(404, lambda: client.query("Memory.Get", {"key": "sdk/missing"})).message
    fails(422, lambda: client.query("Memory.Get", {}))
    fails(413, lambda: client.query("Ping", {"payload": "x" * 20000}))
    once = [client.command("Memory.Set", {"key": key, "value": 2}, key="once-" + key, correlation="sdk") for _ in range(2)]
    assert once == [{"success": True}] * 2, once

    # A reply that is too long for a message comes by reference, and is resolved.
    pieces = ["x" * 9000, "y" * 9000]
    for piece in pieces:
        client.command("Memory.Set", {"key": key + "/long", "value": piece})
    history = client.query("Memory.History", {"key": key + "/long"})
    assert [v["value"] for v in history["versions"]] == pieces[::-1], history
    assert client.resolve({"scheme": "data", "path": "text/plain,a%20b"}) == b"a b"
    assert client.resolve({"scheme": "data", "path": "text/plain;base64,YSBi"}) == b"a b"

    # Handlers
    cancelled = threading.Event()
    with connect() as server:

        @server.handler(TYPE, kind="query", input={"type": "object"}, output={"type": "object"})
        def python(data, request):
            """Serve the test."""
            request.progress("working", 0.5)
            what = data["what"]
            if what == "refuse":
                raise kernos.Error(409, "No", {"code": 500, "message": "a cause"})
            if what == "chain":
                raise kernos.Error(409, "No") from ValueError("why")
            if what == "crash":
                sys.stderr = open(os.devnull, "w")
                raise ValueError("secret")
            if what in ("wait", "sleep"):
                request.cancelled.wait()
                if what == "wait":
                    cancelled.set()
            if what == "long":
                return {"text": "x" * 20000}
            if what == "nest":
                return request.query("Ping", {"payload": what})
            return {"text": what.upper()}

        came = [(m["kind"], m["type"], m["data"]) for m in client.stream("query", TYPE, {"what": "hi"})]
        assert came == [("event", "Syscall.Progressed", {"message": "working", "percentage": 0.5}), ("reply", TYPE, {"text": "HI"})], came
        assert client.query(TYPE, {"what": "nest"}) == {"payload": "nest"}
        assert fails(409, lambda: client.query(TYPE, {"what": "refuse"})).cause["message"] == "a cause"
        assert fails(409, lambda: client.query(TYPE, {"what": "chain"})).cause == {"code": 500, "message": "ValueError: why"}
        assert "secret" not in fails(500, lambda: client.query(TYPE, {"what": "crash"})).message
        fails(413, lambda: client.query(TYPE, {"what": "long"}))
        assert isinstance(fails(504, lambda: client.query(TYPE, {"what": "sleep"}, timeout=0.1)), kernos.Timeout)
        for message in client.stream("query", TYPE, {"what": "wait"}):
            break  # the handler has begun; a caller that stops early cancels the request
        cancelled.wait()
        threads = []
        for n in range(30):
            thread = threading.Thread(target=lambda n=n: results.append(client.query(TYPE, {"what": f"n{n}"})["text"] == f"N{n}"))
            threads.append(thread)
        results = []
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 30, results

# What is asked on a closed connection fails at once.
assert isinstance(fails(502, lambda: client.query("Ping", {"payload": 1})), kernos.Disconnected)
print("fine")
