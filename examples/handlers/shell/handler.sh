#!/usr/bin/env bash
# Answers one request of Json.Select, for kernos handle: its data is on standard input.
set -u -o pipefail
data=$(cat)
fail() {
  jq -nc --argjson code "$1" --arg text "$2" '{$code, message: $text}'
  exit 1
}
echo '{"kind":"event","type":"Syscall.Progressed","data":{"message":"selecting","percentage":0.5}}'
filter=$(jq -r .filter <<<"$data")
# A filter may run for ever: it has ten seconds of the processor, and its output has an end.
values=$( (ulimit -t 10 && jq -c ".value | $filter" <<<"$data") 2>&1 | head -c 16001)
status=$?
[ "${#values}" -lt 16000 ] || fail 413 "The values would take more than 16000 bytes; select less"
[ "$status" -eq 0 ] || fail 422 "The filter fails, or takes too long: ${values:0:1000}"
jq -sc '{values: .}' <<<"$values"
