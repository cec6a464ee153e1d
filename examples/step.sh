#!/bin/sh
# Steps an agent of a running server (make serve) with curl alone:
#
#     sh examples/step.sh [http://127.0.0.1:8000] [b1-nmn]
#
# NMN_API_KEY is sent if it is set. The agent must see one number, as those of benchmark 1 do.
set -eu

url=${1:-http://127.0.0.1:8000}
agent=${2:-b1-nmn}

request() { # METHOD PATH [JSON]
  curl --silent --show-error --fail-with-body --request "$1" "$url$2" \
    ${NMN_API_KEY:+--header "Authorization: Bearer $NMN_API_KEY"} \
    ${3:+--header "Content-Type: application/json" --data "$3" --retry 5 --retry-connrefused}
  echo
}

session=$(request POST "/v1/agents/$agent/sessions" | sed -n 's/.*"session":"\([^"]*\)".*/\1/p')
test -n "$session" || { echo "No session of $agent was opened at $url." >&2; exit 1; }

# A step that bears its number can be repeated (--retry). The reward is that of the step before.
request POST "/v1/sessions/$session/step" '{"observation": [1.5], "step": 1}'
request POST "/v1/sessions/$session/step?include=z" '{"observation": [1.5], "reward": -3.1, "step": 2}'
request POST "/v1/sessions/$session/episode"
request DELETE "/v1/sessions/$session"
