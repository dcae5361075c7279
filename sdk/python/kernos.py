"""Calls and serves syscalls of a Kernos daemon. One file, standard library only, Python 3.9.

    import kernos

    with kernos.Client() as client:
        client.command("Memory.Set", {"key": "notes/1", "value": "milk"})
        print(client.query("Memory.Get", {"key": "notes/1"}))

A client reaches the daemon of this user through `kernos pipe`, which starts it; or a socket
(Client(socket=PATH), or the variable KERNOS_SOCKET); or a server (Client("http://127.0.0.1:7420",
token=…), or KERNOS_TOKEN). It may be used by several threads.

A program that serves syscalls registers functions, again whenever it is connected again:

    def handlers(client):
        @client.handler("Text.Upper", kind="query", summary="Write a text in capitals.",
                        input={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
        def upper(data, request):
            request.progress("writing", 0.5)
            return {"text": data["text"].upper()}

    kernos.serve(handlers)
"""
import base64
import concurrent.futures
import http.client
import json
import os
import queue
import socket as sockets
import ssl
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
import uuid

MAX_LINE = 16384  # bytes of a message
_ANY = {}  # the schema of every value


class Error(Exception):
    """An error message: code is like a status of HTTP, cause the data of another one or None."""

    def __init__(self, code, message, cause=None):
        super().__init__(f"{code} {message}")
        self.code, self.message, self.cause = code, message, cause

    @classmethod
    def of(cls, data):
        return cls(data.get("code", 500), data.get("message", ""), data.get("cause"))

    def data(self):
        data, cause = {"code": self.code, "message": self.message}, self.cause
        if not cause and self.__cause__:  # raise Error(…) from another exception
            e = self.__cause__
            cause = e.data() if isinstance(e, Error) else {"code": 500, "message": f"{type(e).__name__}: {e}"}
        return {**data, "cause": cause} if cause else data


class Disconnected(Error):
    """The connection has ended. What was asked and isn't answered may have happened."""


class Timeout(Error):
    """The answer has not come in time. The request was cancelled."""


_MAY_PASS = {408, 425, 429, 500, 502, 503, 504, 507}  # codes of what may be mended by waiting


def serve(register, **to):
    """Serves until the program is ended. to is what Client takes.

    register(client) registers handlers. When the connection ends, serve connects again and calls it again. What waiting
    can't mend, such as a refused token or a wrong definition, ends the program with status 1 and one line that says why.
    """
    command, pause, told = to.get("command", _PIPE), 0.01, False
    while True:
        try:
            with Client(**to) as client:
                register(client)
                pause, told = 0.01, False
                to["command"] = (*command, "--no-start")  # kernos stop isn't undone
                client.run()
        except Error as e:
            if e.code not in _MAY_PASS:
                sys.exit(f"kernos: {e.message}")
            if not told:
                print(f"kernos: {e.message}; waiting for the daemon", file=sys.stderr, flush=True)
            told = True
        time.sleep(pause)
        pause = min(2 * pause, 1)


_PIPE = ("kernos", "pipe")


class Client:
    """A connection to a daemon. token is for a server at url; headers are added to its requests."""

    def __init__(self, url=None, token=None, socket=None, command=_PIPE, context=None):
        token = token or os.environ.get("KERNOS_TOKEN")
        socket = socket or os.environ.get("KERNOS_SOCKET")
        self._token, self._url, self._context = token, url.rstrip("/") if url else None, context
        if url:
            self._wire = _Http(self._url, token, context)
        elif socket:
            self._wire = _Socket(socket)
        else:
            self._wire = _Process(command)
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._waiting = {}  # queues of the requests that are not answered, by id; None if disconnected
        self._handlers = {}
        self._running = {}  # requests that handlers work on, by id
        self._pool = None
        self._closing = False
        self._reason = Disconnected(502, "the connection to the daemon has ended")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the connection."""
        self._closing = True
        self._wire.close()
        self._reader.join()
        if self._pool:
            self._pool.shutdown(wait=False)

    # Calls

    def query(self, type, data=None, **options):
        """Asks, and returns the data of the reply. The options are those of stream."""
        return self._last("query", type, data, options)

    def command(self, type, data=None, **options):
        """Does, and returns the data of the reply. The options are those of stream."""
        return self._last("command", type, data, options)

    def stream(self, kind, type, data=None, *, key=None, correlation=None, causation=None, timeout=None, on_event=None):
        """Sends a request, and yields the messages that come back: events, then one reply.

        key is the idempotency key of a command, timeout is in seconds. An error is raised. If the
        caller stops early, the request is cancelled.
        """
        metadata = {"correlation": correlation, "causation": causation, "idempotencyKey": key}
        message = _message(kind, type, {} if data is None else data, metadata)
        id, came = message["metadata"]["id"], queue.SimpleQueue()
        with self._lock:
            if self._waiting is None:
                raise self._reason
            self._waiting[id] = came
        deadline = None if timeout is None else time.monotonic() + timeout
        done = False
        try:
            self._send(message)
            while not done:
                try:
                    message = came.get(timeout=None if deadline is None else max(0, deadline - time.monotonic()))
                except queue.Empty:
                    raise Timeout(504, f"{type} was not answered within {timeout} s") from None
                if isinstance(message, Error):
                    done = True
                    raise message
                if message["kind"] == "error":
                    done = True
                    raise Error.of(message["data"])
                done = message["kind"] == "reply"
                if not done and on_event:
                    on_event(message)
                yield message
        finally:
            with self._lock:
                if self._waiting is not None:
                    self._waiting.pop(id, None)
            if not done:
                self._try("command", "Syscall.Cancel", {"id": id})

    def _last(self, kind, type, data, options):
        for message in self.stream(kind, type, data, **options):
            last = message["data"]
        # A reply that is too long for a message is kept in a blob.
        if isinstance(last, dict) and set(last) <= {"dataRef", "size", "mediaType"} and is_pointer(last.get("dataRef")):
            return json.loads(self.resolve(last["dataRef"]))
        return last

    def resolve(self, pointer):
        """Returns the bytes that a BlobPointer points to."""
        scheme, path = pointer["scheme"], pointer["path"]
        if scheme == "data":
            media, _, text = path.partition(",")
            return base64.b64decode(text) if media.endswith(";base64") else urllib.parse.unquote_to_bytes(text)
        if scheme == "file":
            with open(path, "rb") as file:
                return file.read()
        authority = pointer["authority"]
        url = f"https://{authority}{path}" + (f"?{pointer['query']}" if "query" in pointer else "")
        request = urllib.request.Request(url)
        if self._url and urllib.parse.urlsplit(self._url).netloc == authority:
            request = urllib.request.Request(self._url + url[len("https://" + authority):])
            if self._token:
                request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, context=self._context) as response:
                return response.read()
        except urllib.error.HTTPError as e:
            raise Error(e.code, f"{url} can't be read: {e.reason}") from None

    # Handlers

    def handler(self, type, *, kind="command", summary=None, input=_ANY, output=_ANY, emits=(), timeout=None, parallel=16):
        """Registers a function(data, request) for a syscall. What it returns is the reply.

        An Error that it raises goes to the caller; any other exception becomes a 500, and its text
        goes to standard error. timeout is in seconds.
        """

        def register(function):
            with self._lock:
                self._handlers[type] = function
                self._pool = self._pool or concurrent.futures.ThreadPoolExecutor(parallel)
            data = {"name": type, "kind": kind, "description": summary or function.__doc__ or type,
                    "inputSchema": input, "outputSchema": output, "handler": "connection"}
            if emits:
                data["emits"] = list(emits)
            if timeout:
                data["timeout"] = int(timeout * 1000)
            try:
                self.command("Syscall.Register", data)
            except Disconnected:
                raise
            except Error as e:
                raise Error(e.code, f"{type} can't be served: {e.message}", e.cause) from None
            return function

        return register

    def run(self):
        """Serves until the connection ends. The reason is raised, unless the program has closed it. See serve."""
        self._reader.join()
        if not self._closing:
            raise self._reason

    def _handle(self, request, data):
        try:
            answer = _message("reply", request.type, self._handlers[request.type](data, request), {"causation": request.id})
            size = len(_line(answer))
            if size > MAX_LINE:
                raise Error(413, f"The answer would take {size} bytes, and a message may have {MAX_LINE}")
        except Error as e:
            answer = _message("error", request.type, e.data(), {"causation": request.id})
        except Exception:
            traceback.print_exc()
            answer = _message("error", request.type, {"code": 500, "message": f"{request.type} has failed; its log says why"}, {"causation": request.id})
        finally:
            with self._lock:
                self._running.pop(request.id, None)
        try:
            self._send(answer)
        except Error:
            pass  # the reader finds the end of the connection

    # Messages

    def _try(self, kind, type, data, **metadata):
        try:
            self._send(_message(kind, type, data, metadata))
        except Error:
            pass

    def _send(self, message):
        line = _line(message)
        if len(line) > MAX_LINE:
            raise Error(413, f"{message['type']} would take {len(line)} bytes, and a message may have {MAX_LINE}; large data goes by reference")
        with self._sending:
            try:
                self._wire.send(line + b"\n")
            except (OSError, ValueError):
                raise self._reason from None

    def _read(self):
        try:
            for line in self._wire.lines():
                self._take(json.loads(line))
        except (OSError, ValueError, http.client.HTTPException) as e:
            if self._reason.code == 502:
                self._reason = Disconnected(502, f"the connection to the daemon has ended: {e}")
        except Error as e:
            self._reason = e
        finally:
            with self._lock:
                waiting, self._waiting = self._waiting, None
                running = list(self._running.values())
            for came in waiting.values():
                came.put(self._reason)
            for request in running:
                request.cancelled.set()

    def _take(self, message):
        kind, type, cause = message["kind"], message["type"], message["metadata"].get("causation")
        with self._lock:
            came = self._waiting.get(cause)
            known = type in self._handlers
        if kind in ("query", "command") and known:
            request = Request(self, message)
            with self._lock:
                self._running[request.id] = request
            self._pool.submit(self._handle, request, message["data"])
        elif kind == "event" and type == "Syscall.Cancelled":
            with self._lock:
                request = self._running.get(message["data"].get("id"))
            if request:
                request.cancelled.set()
        elif kind == "error" and type == "Syscall.Disconnected":
            self._reason = Disconnected(message["data"]["code"], message["data"]["message"])
            self._wire.close()  # it is the last message; kernos pipe would wait for the next daemon
        elif came:
            came.put(message)


class Request:
    """A request that a handler answers. cancelled is set when no caller waits any more."""

    def __init__(self, client, message):
        self._client, self.type, self.kind, self.metadata = client, message["type"], message["kind"], message["metadata"]
        self.id = self.metadata["id"]
        self.cancelled = threading.Event()

    def event(self, type, data):
        """Sends an event to the caller."""
        self._client._send(_message("event", type, data, {"causation": self.id, "correlation": self.metadata.get("correlation")}))

    def progress(self, message, fraction=None):
        """Tells the caller how far it is, from 0 to 1."""
        self.event("Syscall.Progressed", {"message": message} if fraction is None else {"message": message, "percentage": fraction})

    def query(self, type, data=None, **options):
        """Asks on behalf of the request."""
        return self._client.query(type, data, causation=self.id, correlation=self.metadata.get("correlation"), **options)

    def command(self, type, data=None, **options):
        """Does something on behalf of the request."""
        return self._client.command(type, data, causation=self.id, correlation=self.metadata.get("correlation"), **options)


def is_pointer(value):
    """Reports whether a value is a BlobPointer."""
    return isinstance(value, dict) and value.get("scheme") in ("file", "https", "data") and isinstance(value.get("path"), str)


def _message(kind, type, data, metadata):
    metadata = {name: value for name, value in metadata.items() if value is not None}
    return {"kind": kind, "type": type, "data": data, "metadata": {"id": str(uuid.uuid4()), "timestamp": int(time.time() * 1000), **metadata}}


def _line(message):
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


# Wires: send(bytes), lines() until the end, close().


class _Socket:
    def __init__(self, path):
        self._socket = sockets.socket(sockets.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError as e:
            raise Disconnected(502, f"no daemon serves the socket {path}: {e.strerror}; kernos serve starts one") from None
        self.send = self._socket.sendall

    def lines(self):
        return self._socket.makefile("rb")

    def close(self):
        try:
            self._socket.shutdown(sockets.SHUT_RDWR)
        except OSError:
            pass


class _Process:
    """Lines through kernos pipe, which finds the daemon, starts it, and signs where that is wanted."""

    def __init__(self, command):
        try:  # an interrupt of the terminal is for this program to handle
            again = "--no-start" in command  # that there is no daemon yet is no news
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                                             stderr=subprocess.DEVNULL if again else None)
        except OSError as e:
            raise Error(501, f"{command[0]} can't be run: {e.strerror}; install it, or set KERNOS_SOCKET") from None

    def send(self, data):
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def lines(self):
        yield from self._process.stdout
        if self._process.wait() in (2, 3):  # it doesn't know a flag, or isn't allowed
            raise Error(403, "kernos pipe can't connect; kernos doctor says why")

    def close(self):
        try:
            self._process.stdin.close()
        except OSError:
            pass
        self._process.terminate()


class _Http:
    """Lines in the body of one request and of its answer, at the same time, which urllib can't."""

    def __init__(self, url, token, context):
        at = urllib.parse.urlsplit(url)
        port = at.port or (443 if at.scheme == "https" else 80)
        try:
            self._socket = sockets.create_connection((at.hostname, port))
            if at.scheme == "https":
                self._socket = (context or ssl.create_default_context()).wrap_socket(self._socket, server_hostname=at.hostname)
        except OSError as e:
            raise Disconnected(502, f"{url} can't be reached: {e}") from None
        head = f"POST {at.path}/v1/messages HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
        try:
            self._socket.sendall((head + (f"Authorization: Bearer {token}\r\n" if token else "") + "\r\n").encode())
            self._response = http.client.HTTPResponse(self._socket, method="POST")
            self._response.begin()
        except (OSError, http.client.HTTPException) as e:
            raise Disconnected(502, f"{url} can't be reached: {e}") from None
        if self._response.status != 200:
            text = ""
            try:
                text = self._response.read().decode(errors="replace")
                message = json.loads(text)["message"]
            except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):  # it isn't the daemon's, or ends early
                message = text.strip() or self._response.reason
            self._socket.close()
            raise Error(self._response.status, message)

    def send(self, data):
        self._socket.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def lines(self):
        return iter(self._response.readline, b"")

    def close(self):
        try:
            self._socket.shutdown(sockets.SHUT_RDWR)
        except OSError:
            pass
