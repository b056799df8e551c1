#!/bin/sh
# An agent that adds 1 to a shard COUNT times. It reads, thinks, writes and seals; when another agent was faster, the
# seal is refused and it tries again with what stands there now. Needs curl.
set -eu
began=$(date +%s) calls=0 answer=
field() { printf '%s\n' "$answer" | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
stop() { echo "counter: ${answer:-the sidecar does not answer}" >&2 && exit 1; }

# call posts $2 until there is an answer, each time with the same key, so that it counts once. It fails when the
# transaction was aborted; any other refusal ends the agent.
call() {
  calls=$((calls + 1)) pause=1
  until answer=$(curl -s --fail-with-body --noproxy '*' --max-time 60 -H "Authorization: Bearer $HENCE_TOKEN" \
    -H "Idempotency-Key: $began-$$-$calls" --json "$2" "$HENCE_URL/v1/$1"); do
    [ "$(field state)" != aborted ] || return 1
    [ -z "$answer" ] || [ "$(field retryable),$(field safe_to_retry_with_same_key)" = true,true ] || stop
    [ "$pause" -le 8 ] || stop
    sleep "$pause"
    pause=$((pause * 2))
  done
}

# attempt adds 1 in transaction $tx. It fails when the transaction was aborted.
attempt() {
  call "tx/$tx/reads" '{"scope":"shard:/count"}' || return 1
  was=0
  [ "$(field exists)" != true ] || was=$(field content)
  sleep 0.1 # thinking
  call "tx/$tx/writes" "{\"scope\":\"shard:/count\",\"content\":\"$((was + 1))\"}" || return 1
  call "tx/$tx/seal?wait_ms=10000" '{}' || return 1
  while [ "$(field state)" = sealed ]; do # it may still commit: to seal again is to ask again
    call "tx/$tx/seal?wait_ms=10000" '{}' || return 1
  done
}

done=0
while [ "$done" -lt "${COUNT:-5}" ]; do
  call "workspaces/$HENCE_WORKSPACE/tx" '{}' || stop
  tx=$(field tx)
  until attempt; do
    [ "$(field retryable)" = true ] || stop
    echo "$(field code), again"
    sleep "0.$(printf %03d "$(field backoff_ms)")"
    call "tx/$tx/retry" '{}' || stop
    tx=$(field tx)
  done
  done=$((done + 1))
  echo "$was became $((was + 1))"
done
