#!/usr/bin/env python3
"""An agent that sells from a stock it shares with others, through its Hence sidecar. Copy it with hence.py beside it.

Each round it reads what is left of an item, thinks, and then acts in one transaction: one piece less in the stock, an
order, a label for the parcel, a charge, and a mail. The label is written at once and put back if the transaction is
refused; charge and mail are held and leave only once it is committed. When another agent was faster, the sidecar says
so, and the round is tried again on what is there now.
"""

import json
import os
import random
import signal
import sys
import time

import hence

NAME = os.environ.get("AGENT", "agent-1")
THINK = float(os.environ.get("THINK_SECONDS", "2"))  # on average
MARK = "/tmp/committed"  # touched at each commit, for --check
CATALOGUE = {"mug": 1200, "lamp": 4900, "chair": 8900}  # cents
DELIVERY = 20  # pieces


def sell(tx, order, item, shelf):
    """One attempt: reads, thinks, acts. Returns what was sold, as a sentence."""
    left, word = int(tx.read(f"shard:/stock/{item}") or 0), "sold"
    time.sleep(random.uniform(0, 2 * THINK))  # where a model would think about the numbers
    if not left:
        left, word = DELIVERY, "restocked and sold"
    tx.write(f"shard:/stock/{item}", left - 1)
    row = {"order": order, "item": item, "cents": CATALOGUE[item]}
    tx.write(f"shard:/orders/{shelf}", json.dumps(row), "application/json")
    tx.call("label.write", shelf=shelf, text=f"{order}: one {item}")
    tx.call("payment.charge", order_id=order, cents=CATALOGUE[item])
    tx.call("mail.send", order_id=order, to="ann@example.com", text=f"Your {item} is on its way.")
    return f"{word} one {item}, {left - 1} left"


def round_of(n, run):
    """Tries until the work is committed, or the sidecar says to give it back."""
    order, item, shelf = f"{NAME}-{run}-{n}", random.choice(list(CATALOGUE)), f"{NAME}-{n % 50}"
    start = time.monotonic()
    try:
        done, decision = hence.run(lambda tx: sell(tx, order, item, shelf))
        with open(MARK, "w", encoding="ascii"):
            pass
        word = f"{done}; committed as {decision['seq']} at try"
    except hence.Refused as refused:
        word, decision = f"given back: {refused}; try", refused.decision
    print(f"{NAME}: round {n}: {word} {decision.get('attempt', 1)}, {time.monotonic() - start:.1f} s", flush=True)


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
        except hence.Problem as p:  # for example session_lost: the sidecar was killed, what was open is aborted
            print(f"{NAME}: round {n}: begun again: {p}", flush=True)
            time.sleep(random.uniform(0.5, 1.5))


if __name__ == "__main__":
    try:
        sys.exit(check() if sys.argv[1:] == ["--check"] else main())
    except KeyboardInterrupt:
        sys.exit(130)
