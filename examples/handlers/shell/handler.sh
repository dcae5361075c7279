#!/usr/bin/env bash
# Serves Json.Select: a program of its own that becomes a syscall of the kernel.
set -u -o pipefail
export LC_ALL=C # lengths are in bytes
room=16000      # for the values: a message may have 16,384 bytes
coproc KERNEL { exec kernos pipe; }

# send KIND TYPE CAUSE DATA [OPTION …] sends a message. DATA is a filter of jq that makes its data.
sent=0
send() {
  sent=$((sent + 1))
  jq -c --arg kind "$1" --arg type "$2" --arg cause "$3" --arg id "sh-$$-$sent" "${@:5}" \
    "$4"' | {$kind, $type, data: ., metadata: ({$id, timestamp: (now * 1000 | floor)} + if $cause == "" then {} else {causation: $cause} end)}' \
    >&"${KERNEL[1]}"
}

send command Syscall.Register "" '{
  "name": "Json.Select", "kind": "query", "handler": "connection", "timeout": 120000,
  "description": "Apply a jq filter to a JSON value.",
  "inputSchema": {"type": "object", "properties": {"filter": {"type": "string"}, "value": {}}, "required": ["filter", "value"]},
  "outputSchema": {"type": "object", "properties": {"values": {"type": "array"}}, "required": ["values"]}
}' -n
while IFS= read -r line <&"${KERNEL[0]}"; do
  { read -r kind; read -r type; read -r cause; IFS= read -r value; IFS= read -r -d '' filter; } \
    < <(jq -r '.kind, .type, .metadata.id, (.data | .value? | tojson), (.data | .filter?)' <<<"$line")
  case "$kind $type" in
    "query Json.Select" | "command Json.Select") ;;
    *) continue ;; # no request: the answer to Syscall.Register, Syscall.Cancelled, an error
  esac
  send event Syscall.Progressed "$cause" '{message: "selecting", percentage: 0.5}' -n
  # A filter may go on for ever: it has ten seconds of the processor, and its output has an end.
  values=$( (ulimit -t 10 && jq -c -f <(printf %s "$filter") <<<"$value") 2>&1 | head -c $((room + 1)))
  status=$?
  if [ "${#values}" -ge "$room" ]; then
    send error Json.Select "$cause" '{code: 413, message: $text}' -n --arg text "The values would take more than $room bytes; select less"
  elif [ "$status" -ne 0 ]; then
    send error Json.Select "$cause" '{code: 422, message: $text}' -n --arg text "The filter fails, or takes too long: ${values:0:1000}"
  else
    send reply Json.Select "$cause" '{values: .}' -s <<<"$values"
  fi
done
