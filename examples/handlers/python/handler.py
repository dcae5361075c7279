"""Serves Csv.Parse: a program of its own that becomes a syscall of the kernel."""
import csv
import io

import kernos


def handlers(client):
    @client.handler(
        "Csv.Parse", kind="query", summary="Turn comma-separated text with a header line into objects.",
        input={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        output={"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]})
    def parse(data, request):
        request.progress("parsing", 0.5)
        try:
            return {"rows": list(csv.DictReader(io.StringIO(data["text"]), restkey="rest", strict=True))}
        except csv.Error as error:
            raise kernos.Error(422, f"Not CSV: {error}")


kernos.serve(handlers)
