#!/usr/bin/env bash
# Serves Json.Select: a program of its own that becomes a syscall of the kernel.
set -u
coproc KERNEL { exec kernos pipe; }

# send KIND TYPE CAUSE DATA
sent=0
send() {
  sent=$((sent + 1))
  jq -cn --arg kind "$1" --arg type "$2" --arg cause "$3" --argjson data "$4" --arg id "sh-$$-$sent" \
    '{$kind, $type, $data, metadata: ({$id, timestamp: (now * 1000 | floor)} + if $cause == "" then {} else {causation: $cause} end)}' \
    >&"${KERNEL[1]}"
}

send command Syscall.Register "" '{
  "name": "Json.Select", "kind": "query", "handler": "connection",
  "description": "Apply a jq filter to a JSON value.",
  "inputSchema": {"type": "object", "properties": {"filter": {"type": "string"}, "value": {}}, "required": ["filter", "value"]},
  "outputSchema": {"type": "object", "properties": {"values": {"type": "array"}}, "required": ["values"]}
}'
while IFS= read -r line <&"${KERNEL[0]}"; do
  [ "$(jq -r .type <<<"$line")" = Json.Select ] || continue # the answer to Syscall.Register, or Syscall.Cancelled
  cause=$(jq -r .metadata.id <<<"$line")
  send event Syscall.Progressed "$cause" '{"message": "selecting", "percentage": 0.5}'
  if values=$(jq -c .data.value <<<"$line" | jq -c -f <(jq -r .data.filter <<<"$line") 2>&1); then
    send reply Json.Select "$cause" "$(jq -cs '{values: .}' <<<"$values")"
  else
    send error Json.Select "$cause" "$(jq -cn --arg text "$values" '{code: 422, message: $text}')"
  fi
done
