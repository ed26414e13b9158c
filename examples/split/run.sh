#!/bin/sh
# Splits a language model over processes on this machine and continues a text with it.
#
#   examples/split/run.sh [MODEL [PROMPT]]        PERGOLA names the binary (default: build/release/pergola)
#
# An embed server, two servers of feed-forward layers (the second of them twice), a router that all of them join,
# and a client that has only attention. Prints the likeliest next tokens, whole, split and through the router, and where the time went.
set -eu

pergola=${PERGOLA:-build/release/pergola}
model=${1:-gemma-3-270m}
prompt=${2:-The capital of France is}
folder=$(mktemp -d)
pids=

stop() {
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap stop EXIT INT TERM

# serve NAME ARGS...: starts a part and leaves its URL in $url.
serve() {
  log=$folder/$1.log
  shift
  "$pergola" serve --frame-port 0 --join "$join" "$@" 2>"$log" &
  pids="$pids $!"
  until grep -q '^Ready' "$log"; do
    kill -0 $! 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
  done
  until grep -q '^joined' "$log"; do
    kill -0 $! 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
  done
  url=$(sed -n "s/^listening on \(pergola:.*\)/\1/p" "$log")
}

"$pergola" slice "$model" --part embed -o "$folder/embed"
"$pergola" slice "$model" --part client -o "$folder/client"
layers=$(sed -n 's/.*"num_layers":\([0-9]*\).*/\1/p' "$folder/client/index.json")
half=$((layers / 2))
"$pergola" slice "$model" --part ffn --layers "0-$((half - 1))" -o "$folder/low"
"$pergola" slice "$model" --part ffn --layers "$half-$((layers - 1))" -o "$folder/high"

log=$folder/router.log
"$pergola" router --port 0 --frame-port 0 --http-port 0 2>"$log" &
pids="$pids $!"
until grep -q 'grpc:' "$log"; do
  kill -0 $! 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
grid=$(sed -n "s/^listening on \(pergola:.*\)/\1/p" "$log")
join=$(sed -n "s,^listening on grpc://\(.*\),\1,p" "$log")

serve embed --role embed --port 0 --model "$folder/embed"
embed=$url
serve low --role ffn --model "$folder/low"
ffn=$url
for copy in 1 2; do
  serve "high$copy" --role ffn --model "$folder/high"
  ffn=$ffn,$url
done

echo "-- whole"
"$pergola" predict --model "$model" --prompt "$prompt" --max-tokens 16 --profile
echo "-- split"
"$pergola" predict --model "$folder/client" --attention-only --embed "$embed" --ffn "$ffn" --prompt "$prompt" \
  --max-tokens 16 --profile
echo "-- through the router"
"$pergola" predict --model "$folder/client" --attention-only --grid "$grid" --prompt "$prompt" --max-tokens 16 --profile
