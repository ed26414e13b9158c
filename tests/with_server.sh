#!/usr/bin/env bash
# with_server.sh SERVE_FLAGS... -- COMMAND...: starts `pergola serve` on a free port, runs COMMAND with
# BASE_URL and SERVER_PID set, stops the server with SIGTERM and fails if COMMAND or the server did.
# PERGOLA names the binary.
set -uo pipefail
pergola=${PERGOLA:-build/release/pergola}
flags=()
while (($#)) && [[ $1 != -- ]]; do
  flags+=("$1")
  shift
done
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$pergola" serve --port 0 "${flags[@]}" 2>"$log" &
SERVER_PID=$!
for ((tries = 0; tries < 600; ++tries)); do
  BASE_URL=$(sed -n 's/^listening on \(http.*\)$/\1/p' "$log" | head -1)
  [[ -n $BASE_URL ]] && break
  kill -0 "$SERVER_PID" 2>/dev/null || break
  sleep 0.1
done
if [[ -z $BASE_URL ]]; then
  echo "the server did not start:" >&2
  cat "$log" >&2
  exit 1
fi
export BASE_URL SERVER_PID
"$@"
code=$?
kill -TERM "$SERVER_PID"
wait "$SERVER_PID"
server=$?
if ((server != 0)); then
  echo "the server ended with $server:" >&2
  tail -20 "$log" >&2
  exit 1
fi
exit $code
