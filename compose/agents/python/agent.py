#!/usr/bin/env python3
"""An agent that sells from a stock it shares with others, through its Hence sidecar. Copy it: it needs only Python.

Each round it reads what is left of an item, thinks, and then acts in one transaction: one piece less in the stock, an
order, a label for the parcel, a charge, and a mail. The label is written at once and put back if the transaction is
refused; charge and mail are held and leave only once it is committed. When somebody else was faster, the sidecar says
so, and the round is tried again on what is there now.
"""

import http.client
import json
import os
import random
import signal
import sys
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("HENCE_URL", "http://127.0.0.1:7420")
TOKEN_FILE = os.environ.get("HENCE_TOKEN_FILE", "/run/hence/token")
NAME = os.environ.get("AGENT", "agent-1")
WORKSPACE = os.environ.get("WORKSPACE", "default")
THINK = float(os.environ.get("THINK_SECONDS", "2"))  # on average
MARK = "/tmp/committed"  # touched at each commit, for --check
CATALOGUE = {"mug": 1200, "lamp": 4900, "chair": 8900}  # cents
DELIVERY = 20  # pieces
LAG = 30  # seconds; longer than the table of transactions is behind the log
GONE = ("session_lost", "forgotten")  # what a sidecar says of a transaction that it knows no more


class Problem(Exception):
    """The sidecar refused a request; the fields are those of RFC 9457 and Hence's own."""

    def __init__(self, status, fields):
        super().__init__(f"{fields.get('code')} ({status}): {fields.get('detail')}")
        self.status, self.code, self.fields = status, fields.get("code", ""), fields
        self.decision = fields.get("decision") or {}  # set when the transaction was decided


def call(method, path, body=None):
    """Asks the sidecar until it answers. All tries carry one Idempotency-Key, so together they count once."""
    key, pause, said = uuid.uuid4().hex, 0.1, False
    while True:
        try:
            return once(method, path, body, key)
        except Problem as p:
            if not (p.fields.get("retryable") and p.fields.get("safe_to_retry_with_same_key")
                    and (p.status == 503 or p.code == "idempotency_key_in_flight")):
                raise
            why = str(p)
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as e:
            why = str(e)
        if not said:
            print(f"{NAME}: waiting for the sidecar: {why}", flush=True)
        said = True
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, 3)


def once(method, path, body, key, timeout=60):
    """One try of a request."""
    with open(TOKEN_FILE, encoding="ascii") as f:  # the sidecar makes it at its first start
        token = f.read().strip()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, "Authorization": "Bearer " + token}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        raise problem_of(e) from None


def problem_of(error):
    try:
        return Problem(error.code, json.load(error))
    except (OSError, ValueError, http.client.HTTPException):
        return Problem(error.code, {"code": "foreign_answer", "detail": "the answer is not a sidecar's"})


def read(tx, scope):
    """A shard's JSON, or None where nobody has written yet."""
    shard = call("POST", f"/v1/tx/{tx}/reads", {"scope": scope})
    return json.loads(shard["content"]) if shard["exists"] else None


def write(tx, scope, value):
    content = json.dumps(value)
    call("POST", f"/v1/tx/{tx}/writes", {"scope": scope, "content": content, "media_type": "application/json"})


def effect(tx, tool, **args):
    """Calls a tool. The answer is its result, or the receipt of one that is held: do not call that one again."""
    receipt = call("POST", f"/v1/tx/{tx}/effects", {"tool": tool, "args": args})
    if receipt["state"] == "failed":  # the tool refused it, and nothing happened
        raise Problem(422, {"code": "tool_failed", "detail": f"{tool}: {receipt.get('detail', '')}"})
    return receipt


def abort(tx, reason):
    """Ends a transaction that goes nowhere, so that nobody waits for it until its deadline. Tried once."""
    try:
        once("POST", f"/v1/tx/{tx}/abort", {"reason": reason}, uuid.uuid4().hex, timeout=2)
    except (Problem, OSError, http.client.HTTPException, json.JSONDecodeError):
        pass  # it is over, or its deadline ends it


def seal(tx):
    """The decision. A refusal is one, too. Until it is known, the transaction may commit: nothing is begun before."""
    try:
        decision = call("POST", f"/v1/tx/{tx}/seal?wait_ms=25000", {})
    except Problem as p:
        if p.decision.get("state") == "aborted":
            return p.decision
        decision = status(tx, 0)
        if decision["state"] == "open":  # the seal was not taken
            raise
    while decision["state"] == "sealed":
        decision = status(tx, 25000)
    return decision


def status(tx, wait_ms):
    """How a transaction stands; of one that the sidecar has lost, the log's own table says it."""
    said = False
    while True:
        try:
            return call("GET", f"/v1/tx/{tx}?wait_ms={wait_ms}")
        except Problem as p:
            if p.code in GONE:
                return ended(tx, p)
            if p.status in (403, 404):  # there is no such transaction in this log
                raise
            if not said:
                print(f"{NAME}: waiting to be told how {tx} ended: {p}", flush=True)
            said = True
            time.sleep(1)


def ended(tx, lost):
    """How a lost transaction ended. Raises what the sidecar said of it when the log knows of no decision."""
    until = time.monotonic() + LAG
    while True:
        try:
            row = call("GET", f"/v1/tx/{tx}/closure?limit=1")["rows"][0]
        except Problem as p:
            row = {}
            if p.code != "unknown_tx":  # that is no answer
                until = time.monotonic() + LAG
        if row.get("seq"):
            state = "aborted" if row.get("code") else "committed"
            return {"tx": tx, "state": state, "seq": row["seq"], "code": row.get("code")}
        if time.monotonic() > until:  # its seal has not reached the log, and cannot any more
            raise lost
        time.sleep(1)


def sell(tx, order, item, shelf):
    """One attempt: reads, thinks, acts. Returns what was sold, as a sentence."""
    left, word = read(tx, f"shard:/stock/{item}"), "sold"
    time.sleep(random.uniform(0, 2 * THINK))  # where a model would think about the numbers
    if not left:
        left, word = DELIVERY, "restocked and sold"
    write(tx, f"shard:/stock/{item}", left - 1)
    write(tx, f"shard:/orders/{shelf}", {"order": order, "item": item, "cents": CATALOGUE[item]})
    effect(tx, "label.write", shelf=shelf, text=f"{order}: one {item}")
    effect(tx, "payment.charge", order_id=order, cents=CATALOGUE[item])
    effect(tx, "mail.send", order_id=order, to="ann@example.com", text=f"Your {item} is on its way.")
    return f"{word} one {item}, {left - 1} left"


def attempt(tx, order, item, shelf):
    """One attempt to its decision. What is refused before the seal is refused: a decision, too."""
    done = ""
    try:
        done = sell(tx, order, item, shelf)
        return seal(tx), done
    except Problem as p:
        if p.decision.get("state") == "aborted":
            return p.decision, ""
        abort(tx, p.code)
        raise
    except BaseException:  # SIGTERM is one; what is sealed is decided without us
        if not done:
            abort(tx, "the agent ends")
        raise


def round_of(n, run):
    """Tries until the work is committed, or the sidecar says to give it back."""
    order, item, shelf = f"{NAME}-{run}-{n}", random.choice(list(CATALOGUE)), f"{NAME}-{n % 50}"
    start = time.monotonic()
    tx = call("POST", f"/v1/workspaces/{WORKSPACE}/tx", {})["tx"]
    while True:
        decision, done = attempt(tx, order, item, shelf)
        tries, took = decision.get("attempt", 1), time.monotonic() - start
        if decision["state"] == "committed":
            with open(MARK, "w", encoding="ascii"):
                pass
            seq = decision["seq"]
            print(f"{NAME}: round {n}: {done}; committed as {seq} at try {tries}, {took:.1f} s", flush=True)
            return
        why = f"{decision.get('code')} {decision.get('scope', '')}".strip()
        if decision.get("give_up") or not decision.get("retryable"):
            print(f"{NAME}: round {n}: given back after try {tries}, {took:.1f} s: {why}", flush=True)
            return
        time.sleep(decision.get("backoff_ms", 100) / 1000)
        tx = call("POST", f"/v1/tx/{decision['tx']}/retry", {})["tx"]


def check():
    """For the container's health: was anything committed in the last minutes?"""
    try:
        return 0 if time.time() - os.stat(MARK).st_mtime < 60 + 20 * THINK else 1
    except OSError:
        return 1


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    run, n = format(int(time.time()), "x"), 0
    while True:
        n += 1
        try:
            round_of(n, run)
        except Problem as p:  # for example session_lost: the sidecar was killed, what was open is aborted
            print(f"{NAME}: round {n}: begun again: {p}", flush=True)
            time.sleep(random.uniform(0.5, 1.5))


if __name__ == "__main__":
    try:
        sys.exit(check() if sys.argv[1:] == ["--check"] else main())
    except KeyboardInterrupt:
        sys.exit(130)
