"""Serves Csv.Parse: a program of its own that becomes a syscall of the kernel."""
import csv
import io
import json
import os
import socket
import time
import uuid

MAX_LINE = 16384  # bytes of a message

connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["KERNOS_SOCKET"])  # kernos status --json | jq -r .socket


def send(kind, name, data, cause=None):
    metadata = {"id": str(uuid.uuid4()), "timestamp": int(time.time() * 1000)}
    if cause:
        metadata["causation"] = cause
    line = json.dumps({"kind": kind, "type": name, "data": data, "metadata": metadata})
    if len(line) > MAX_LINE:
        text = f"The answer would take {len(line)} bytes, and a line may have {MAX_LINE}"
        return send("error", name, {"code": 413, "message": text}, cause)
    connection.sendall(line.encode() + b"\n")


send("command", "Syscall.Register", {
    "name": "Csv.Parse", "kind": "query", "handler": "connection",
    "description": "Turn comma-separated text with a header line into objects.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "outputSchema": {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]},
})
# For reading only: a file for both would forget what it has read ahead whenever it writes.
for line in connection.makefile("r", encoding="utf-8", newline="\n"):
    m = json.loads(line)
    if m["kind"] not in ("query", "command") or m["type"] != "Csv.Parse":
        continue  # no request: the answer to Syscall.Register, Syscall.Cancelled, an error
    cause = m["metadata"]["id"]
    send("event", "Syscall.Progressed", {"message": "parsing", "percentage": 0.5}, cause)
    try:
        rows = list(csv.DictReader(io.StringIO(m["data"]["text"]), restkey="rest", strict=True))
        send("reply", m["type"], {"rows": rows}, cause)
    except csv.Error as error:
        send("error", m["type"], {"code": 422, "message": f"Not CSV: {error}"}, cause)
