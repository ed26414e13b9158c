#!/usr/bin/env bash
# with_server.sh SERVE_FLAGS... -- COMMAND...: starts `pergola serve` on a free port, runs COMMAND with
# BASE_URL and SERVER_PID set, stops the server with SIGTERM and fails if COMMAND or the server did.
# PERGOLA names the binary. With SERVERS=N it starts a gateway before N servers instead: the flags are the
# gateway's, and the first must be --model M, which is the servers' as well.
set -uo pipefail
pergola=${PERGOLA:-build/release/pergola}
flags=()
while (($#)) && [[ $1 != -- ]]; do
  flags+=("$1")
  shift
done
shift
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

# launch NAME ARGUMENTS...: starts it, its log in $log/NAME; sets pid and address.
launch() {
  local name=$1 tries
  shift
  : >"$log/$name"
  "$pergola" "$@" --port 0 2>"$log/$name" &
  pid=$!
  for ((tries = 0; tries < 600; ++tries)); do
    address=$(sed -n 's/^listening on \(.*\)$/\1/p' "$log/$name" | head -1)
    [[ -n $address ]] && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  echo "$name did not start:" >&2
  cat "$log/$name" >&2
  kill -TERM ${pids[@]+"${pids[@]}"} 2>/dev/null
  exit 1
}

pids=()
command=serve
if ((${SERVERS:-0})); then
  backends=
  for ((number = 0; number < SERVERS; ++number)); do
    launch "server$number" server "${flags[@]:0:2}"
    pids+=("$pid")
    backends+=${backends:+,}${address#grpc://}
  done
  command=gateway
  flags+=(--backend "$backends")
fi
launch "$command" "$command" "${flags[@]}"
if [[ $command == gateway ]]; then
  # It listens at once; a server has to answer first.
  for ((tries = 0; tries < 600; ++tries)); do
    grep -q '^ready$' "$log/$command" && break
    sleep 0.1
  done
fi
pids=("$pid" ${pids[@]+"${pids[@]}"})
SERVER_PID=$pid
BASE_URL=$address
export BASE_URL SERVER_PID
"$@"
code=$?
for pid in "${pids[@]}"; do
  kill -TERM "$pid"
  wait "$pid"
  server=$?
  if ((server != 0)); then
    echo "process $pid ended with $server:" >&2
    tail -20 "$log"/* >&2
    kill -TERM "${pids[@]}" 2>/dev/null
    exit 1
  fi
done
exit $code
