"""Serves Csv.Parse: a program of its own that becomes a syscall of the kernel."""
import csv
import io
import json
import os
import socket
import time
import uuid

connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["KERNOS_SOCKET"])  # kernos status --json | jq -r .socket
stream = connection.makefile("rw", encoding="utf-8", newline="\n")


def send(kind, name, data, cause=None):
    metadata = {"id": str(uuid.uuid4()), "timestamp": int(time.time() * 1000)}
    if cause:
        metadata["causation"] = cause
    stream.write(json.dumps({"kind": kind, "type": name, "data": data, "metadata": metadata}) + "\n")
    stream.flush()


send("command", "Syscall.Register", {
    "name": "Csv.Parse", "kind": "query", "handler": "connection",
    "description": "Turn comma-separated text with a header line into objects.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "outputSchema": {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]},
})
for line in stream:
    m = json.loads(line)
    if m["type"] != "Csv.Parse":
        continue  # the answer to Syscall.Register, or Syscall.Cancelled
    cause = m["metadata"]["id"]
    send("event", "Syscall.Progressed", {"message": "parsing", "percentage": 0.5}, cause)
    try:
        rows = list(csv.DictReader(io.StringIO(m["data"]["text"]), restkey="rest", strict=True))
        send("reply", m["type"], {"rows": rows}, cause)
    except csv.Error as error:
        send("error", m["type"], {"code": 422, "message": f"Not CSV: {error}"}, cause)
