#!/bin/sh
# An agent that adds 1 to a shard COUNT times. It reads, thinks, writes and seals; when somebody else was faster, the
# seal is refused and it begins again with what stands there now. Needs curl.
set -eu
call() { curl -sS --noproxy '*' -H "Authorization: Bearer $HENCE_TOKEN" "$@"; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

done=0
while [ "$done" -lt "${COUNT:-5}" ]; do
  tx=$(call --json '{}' "$HENCE_URL/v1/workspaces/$HENCE_WORKSPACE/tx" | field tx)
  was=$(call --json '{"scope":"shard:/count"}' "$HENCE_URL/v1/tx/$tx/reads" | field content)
  sleep 0.1 # thinking
  call --json "{\"scope\":\"shard:/count\",\"content\":\"$((${was:-0} + 1))\"}" "$HENCE_URL/v1/tx/$tx/writes" >/dev/null
  state=$(call --json '{}' "$HENCE_URL/v1/tx/$tx/seal?wait_ms=10000" | field state)
  if [ "$state" = committed ]; then
    done=$((done + 1))
    echo "${was:-0} became $((${was:-0} + 1))"
  else
    echo "$state, again"
  fi
done
