"""Transactions through a Hence sidecar, with Python's standard library only. Copy this file beside your agent.

    import hence
    result, decision = hence.run(work)   # calls work(tx) until what it read still holds at the end, and returns both

Inside work: tx.read(scope), tx.write(scope, content), tx.call(tool, argument=value, ...).
"""
import http.client
import json
import os
import random
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("HENCE_URL", "http://127.0.0.1:7420")
WORKSPACE = os.environ.get("HENCE_WORKSPACE", "default")
LAG = 30  # seconds; longer than the table of transactions is behind the log


class Problem(Exception):
    """A request was refused. The fields are those of RFC 9457 and Hence's own."""

    def __init__(self, status, fields):
        super().__init__(f"{fields.get('code')} ({status}): {fields.get('detail')}")
        self.status, self.code, self.fields = status, fields.get("code", ""), fields
        self.decision = fields.get("decision") or {}  # set when the transaction is decided


class Refused(Exception):
    """A transaction is refused for good; decision says why."""

    def __init__(self, decision):
        super().__init__(f"{decision['tx']}: {decision.get('code')} {decision.get('scope', '')}".strip())
        self.decision = decision


def run(work, **begin):
    """Runs work(tx) in a transaction, again on what is there then if it is refused; returns its result, the decision."""
    tx = Tx(ask("POST", f"/v1/workspaces/{WORKSPACE}/tx", begin)["tx"])
    while True:
        decision, result = tx.attempt(work)
        if decision["state"] == "committed":
            return result, decision
        if decision.get("give_up") or not decision.get("retryable"):
            raise Refused(decision)
        time.sleep(decision.get("backoff_ms", 100) / 1000)
        tx = Tx(ask("POST", f"/v1/tx/{tx.id}/retry", {})["tx"])  # the successor


class Tx:
    def __init__(self, name):
        self.id = name

    def read(self, scope):
        """The content of a shard; None: nothing was written there yet."""
        shard = ask("POST", f"/v1/tx/{self.id}/reads", {"scope": scope})
        return shard["content"] if shard["exists"] else None

    def write(self, scope, content, media_type="text/plain"):
        """Writes a shard; others see it once the transaction is committed."""
        body = {"scope": scope, "content": str(content), "media_type": media_type}
        ask("POST", f"/v1/tx/{self.id}/writes", body)

    def call(self, tool, **args):
        """Calls a tool. Returns what it answered, or the receipt of a call that leaves with the commit."""
        receipt = ask("POST", f"/v1/tx/{self.id}/effects", {"tool": tool, "args": args})
        if receipt["state"] == "failed":  # the tool refused, and nothing happened
            raise Problem(422, {"code": "tool_failed", "detail": f"{tool}: {receipt.get('detail', '')}"})
        return receipt

    def attempt(self, work):
        """Runs work once, to its decision. A refusal before the seal is a decision too."""
        sealing = False
        try:
            result = work(self)
            sealing = True
            return self.seal(), result
        except Problem as p:
            if p.decision.get("state") == "aborted":
                return p.decision, None
            self.abort(p.code)
            raise
        except BaseException:  # SIGTERM may raise one; what is sealed is decided without the agent
            if not sealing:
                self.abort("the agent ends")
            raise

    def seal(self):
        """The decision. Until it is known the transaction may commit, so the work is not begun again before."""
        try:
            decision = ask("POST", f"/v1/tx/{self.id}/seal?wait_ms=25000", {})
        except Problem as p:
            if p.decision.get("state") == "aborted":
                return p.decision
            decision = self.status(0)
            if decision["state"] == "open":  # the seal was not taken
                raise
        while decision["state"] == "sealed":
            decision = self.status(25000)
        return decision

    def status(self, wait_ms):
        """How the transaction stands."""
        while True:
            try:
                return ask("GET", f"/v1/tx/{self.id}?wait_ms={wait_ms}")
            except Problem as p:
                if p.code in ("session_lost", "forgotten"):
                    return self.ended(p)
                if p.status in (403, 404):  # there is no such transaction in this log
                    raise
            time.sleep(1)

    def ended(self, lost):
        """How a transaction ended that the sidecar does not know any more: the table of transactions says it."""
        until = time.monotonic() + LAG
        while time.monotonic() < until:
            try:
                row = ask("GET", f"/v1/tx/{self.id}/closure?limit=1")["rows"][0]
                if row.get("seq"):
                    state = "aborted" if row.get("code") else "committed"
                    return {"tx": self.id, "state": state, "seq": row["seq"], "code": row.get("code")}
            except Problem as p:
                if p.code != "unknown_tx":  # that is no answer
                    until = time.monotonic() + LAG
            time.sleep(1)
        raise lost  # its seal has not reached the log, and cannot any more

    def abort(self, reason):
        """Ends a transaction early, so that others need not wait for its deadline. Tried once."""
        try:
            once("POST", f"/v1/tx/{self.id}/abort", {"reason": reason}, uuid.uuid4().hex, timeout=2)
        except (Problem, OSError, http.client.HTTPException, ValueError):
            pass  # it is over, or its deadline ends it


def ask(method, path, body=None):
    """Asks until the sidecar answers. All tries carry one Idempotency-Key, so together they count once."""
    key, pause, said = uuid.uuid4().hex, 0.1, False
    while True:
        try:
            return once(method, path, body, key)
        except Problem as p:
            again = p.fields.get("retryable") and p.fields.get("safe_to_retry_with_same_key")
            if not again or p.status != 503 and p.code != "idempotency_key_in_flight":
                raise
            why = p
        except (OSError, http.client.HTTPException, ValueError) as e:
            why = e
        if not said:
            print(f"waiting for the sidecar: {why}", flush=True)
        said = True
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, 3)


def once(method, path, body, key, timeout=60):
    """One try of a request."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, "Authorization": "Bearer " + token()}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        try:
            fields = json.load(e)
        except ValueError:
            fields = {"code": "foreign_answer", "detail": "the answer is not a sidecar's"}
        raise Problem(e.code, fields) from None


def token():
    """From the environment, else from the file that the sidecar makes at its first start."""
    if "HENCE_TOKEN" in os.environ:
        return os.environ["HENCE_TOKEN"]
    with open(os.environ.get("HENCE_TOKEN_FILE", "/run/hence/token"), encoding="ascii") as f:
        return f.read().strip()
