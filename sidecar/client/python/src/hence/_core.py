"""What the sync and the async client share: requests, retries and the reading of answers, without any input or output.

A flow is a generator. It yields a Request, and is sent the Answer or thrown the error of the connection; or it yields
a number, the seconds to wait. A driver runs it: _sync.drive over http.client, aio over asyncio streams.
"""

from __future__ import annotations

import base64
import json
import os
import random
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ._sign import Signer
from .errors import BadRequest, HenceError, Problem, ToolFailed, Unavailable, problem, refused

WAIT_MS = 25_000  # of one request that waits for a decision; below the sidecar's bound of 30 s


@dataclass
class Request:
    """One try of a request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    timeout: float


@dataclass
class Answer:
    """What came back, whole."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Flow = Generator[Any, Any, Any]


@dataclass(frozen=True)
class Config:
    """Where the sidecar is and who asks. What is not given is read from the environment, as `hence run` sets it."""

    url: str
    token: str
    workspace: str
    session: str
    agent: str
    patience: float
    attempts: int
    key_file: str = ""
    signer: Signer | None = None  # in place of the token

    @property
    def address(self) -> tuple[str, int, bool]:
        """Host, port, and whether over TLS."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80), parts.scheme == "https"

    @property
    def prefix(self) -> str:
        """Path of the base address, without a slash at its end."""
        return urlsplit(self.url).path.rstrip("/")


def config(url: str = "", token: str = "", workspace: str = "", session: str = "", agent: str = "",
           patience: float = 60.0, attempts: int = 10, key_file: str = "") -> Config:
    """Settings, completed from HENCE_URL, HENCE_KEY_FILE, HENCE_TOKEN or HENCE_TOKEN_FILE, and HENCE_WORKSPACE."""
    url = url or os.environ.get("HENCE_URL", "")
    if not url:
        raise HenceError('no sidecar is named: run the program with `hence run -- COMMAND`, or `eval "$(hence env)"`, '
                         "or set HENCE_URL")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HenceError(f"HENCE_URL is {url!r}: give an address such as http://127.0.0.1:7420")
    key_file = key_file or ("" if token else os.environ.get("HENCE_KEY_FILE", ""))
    token = token or os.environ.get("HENCE_TOKEN", "")
    if not token and os.environ.get("HENCE_TOKEN_FILE"):
        with open(os.environ["HENCE_TOKEN_FILE"], encoding="ascii") as f:
            token = f.read().strip()
    workspace = workspace or os.environ.get("HENCE_WORKSPACE", "") or "default"
    if attempts < 1:
        raise HenceError(f"attempts is {attempts}: give a number from 1")
    return Config(url, token, workspace, session, agent, patience, attempts, key_file,
                  Signer(key_file) if key_file else None)


def ask(c: Config, method: str, path: str, body: Any = None, key: str = "", query: dict[str, Any] | None = None,
        patience: float | None = None, timeout: float = 40.0) -> Flow:
    """Asks until the sidecar answers. All tries carry one Idempotency-Key, so together they count once."""
    headers = {"Accept": "application/json", **identity(c)}
    if method != "GET":
        headers["Idempotency-Key"] = key or uuid.uuid4().hex
    data = None
    if body is not None:
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        headers["Content-Type"] = "application/json"
    target = c.prefix + path + ("?" + urlencode(query) if query else "")
    until, pause = time.monotonic() + (c.patience if patience is None else patience), 0.05
    while True:
        why: Problem
        try:
            answer = yield Request(method, target, signed(c, method, target, headers, data), data, timeout)
        except (OSError, EOFError) as e:  # the connection broke; the key makes a further try safe
            why = Unavailable({"code": "no_sidecar_answers", "retryable": True, "safe_to_retry_with_same_key": True,
                               "detail": f"{c.url}: {e or type(e).__name__}"})
        else:
            if answer.status < 400:
                return json.loads(answer.body) if answer.body else {}
            why = problem(problem_of(answer))
            if not again(why):
                raise why
        if time.monotonic() >= until:  # bounded: a caller is told rather than left waiting for ever
            raise why
        yield pause * random.uniform(0.5, 1)
        pause = min(2 * pause, 3.0)


def again(why: Problem) -> bool:
    """The same request is sent again: while its first try is in flight, or the sidecar cannot serve it for now."""
    if why.code in ("idempotency_key_in_flight", "signature_time", "signature_seen"):  # each try is signed separately
        return True
    return why.retryable and why.safe_to_retry_with_same_key and why.status in (429, 503)


def signed(c: Config, method: str, target: str, headers: dict[str, str], body: bytes | None) -> dict[str, str]:
    """The headers of one try: a sidecar takes a signature once."""
    return c.signer.sign(method, c.url, target, headers, body) if c.signer else headers


def identity(c: Config) -> dict[str, str]:
    """Headers that say who asks."""
    headers = {}
    if c.token and not c.signer:
        headers["Authorization"] = "Bearer " + c.token
    if c.session:
        headers["Hence-Session"] = c.session
    if c.agent:
        headers["Hence-Agent"] = c.agent
    return headers


def problem_of(answer: Answer) -> dict[str, Any]:
    """Fields of a problem; of an answer that is no sidecar's, such as a proxy's, fields that say so."""
    try:
        fields = json.loads(answer.body)
        if isinstance(fields, dict) and "code" in fields:
            return {"status": answer.status, **fields}
    except ValueError:
        pass
    return {"status": answer.status, "code": "foreign_answer",
            "detail": "the answer is not a sidecar's: is something else at HENCE_URL?"}


def scope_of(name: str) -> str:
    """Scope of a name: orders/1 is the shard /orders/1, and what has a type keeps it."""
    if not isinstance(name, str) or not name:
        raise HenceError(f"a scope is a text such as 'orders/1', not {name!r}")
    head = name.split("/", 1)[0]
    return name if ":" in head else "shard:/" + name.lstrip("/")


def write_of(name: str, value: Any, **more: Any) -> dict[str, Any]:
    """Body of a write: bytes as they are, a text as text, anything else as JSON."""
    body: dict[str, Any] = {"scope": scope_of(name), **more}
    if isinstance(value, (bytes, bytearray, memoryview)):
        body.update(content_base64=base64.b64encode(bytes(value)).decode(), media_type="application/octet-stream")
    elif isinstance(value, str):
        body.update(content=value, media_type="text/plain")
    else:
        body.update(value=value)
    return body


def value_of(shard: dict[str, Any]) -> Any:
    """What a shard has: the JSON value, the text, or the bytes."""
    if "value" in shard:
        return shard["value"]
    if "content_base64" in shard:
        return base64.b64decode(shard["content_base64"])
    text = shard.get("content", "")
    if shard.get("media_type") == "application/octet-stream":  # bytes that happen to be text came as such
        return text.encode()
    if shard.get("media_type", "").split(";")[0].strip() == "application/json":
        return json.loads(text)
    return text


def begin(c: Config, options: dict[str, Any], key: str = "") -> Flow:
    """Begins a transaction."""
    return (yield from ask(c, "POST", f"/v1/workspaces/{quote(c.workspace, safe='')}/tx", options, key))


def status(c: Config, tx: str, wait_ms: int = 0) -> Flow:
    """How a transaction stands."""
    return (yield from ask(c, "GET", f"/v1/tx/{tx}", query={"wait_ms": wait_ms} if wait_ms else None))


def decide(c: Config, tx: str, pins: list[dict[str, str]] | None = None) -> Flow:
    """Seals, and waits for the decision. Until it is known the transaction may commit: nothing is begun again before."""
    try:
        decision = yield from ask(c, "POST", f"/v1/tx/{tx}/seal", {"pins": pins} if pins else {},
                                  query={"wait_ms": WAIT_MS})
    except Problem as p:
        if p.decision.get("state") != "aborted":
            raise
        decision = p.decision
    while decision["state"] == "sealed":
        decision = yield from status(c, tx, WAIT_MS)
    if decision["state"] != "committed":
        raise refused(decision)
    return decision


def abort(c: Config, tx: str, reason: str) -> Flow:
    """Ends a transaction early. It is tried for a moment only: else its deadline ends it."""
    try:
        return (yield from ask(c, "POST", f"/v1/tx/{tx}/abort", {"reason": reason[:128]}, patience=0.5, timeout=2.0))
    except Problem:
        return {}  # it is over already, or the deadline ends it


def retry(c: Config, tx: str) -> Flow:
    """Begins the successor of a refused transaction."""
    return (yield from ask(c, "POST", f"/v1/tx/{tx}/retry", {}))


def read(c: Config, tx: str, name: str, **more: Any) -> Flow:
    """Reads a scope in a transaction."""
    return (yield from ask(c, "POST", f"/v1/tx/{tx}/reads", {"scope": scope_of(name), **more}))


def write(c: Config, tx: str, name: str, value: Any, **more: Any) -> Flow:
    """Writes a shard in a transaction."""
    return (yield from ask(c, "POST", f"/v1/tx/{tx}/writes", write_of(name, value, **more)))


def plan(c: Config, tx: str, calls: list[str]) -> Flow:
    """Says the order of calls that will be made side by side."""
    return (yield from ask(c, "POST", f"/v1/tx/{tx}/plan", {"calls": calls}))


def call(c: Config, tx: str, tool: str, args: dict[str, Any], call_id: str = "", key: str = "") -> Flow:
    """Calls a tool. A refusal of the tool itself is an error, with the receipt in it."""
    body: dict[str, Any] = {"tool": tool, "args": args}
    if call_id:
        body["call"] = call_id
    if key:
        body["key"] = key
    receipt = yield from ask(c, "POST", f"/v1/tx/{tx}/effects", body)
    if receipt["state"] == "failed":
        raise ToolFailed({"code": "tool_failed", "status": 409, "tool": tool, "title": "the tool refused",
                          "detail": f"{tool}: {receipt.get('detail', '')}"}, receipt)
    return receipt


def tools(c: Config) -> Flow:
    """What the policy offers to agents."""
    try:
        return (yield from ask(c, "GET", "/v1/tools"))["tools"]
    except BadRequest as p:
        if p.code == "no_policy":  # without a policy there are no tools
            return []
        raise


def pause_of(p: Problem, attempt: int) -> float:
    """Seconds before the work is done again: what the decision says, else doubling from 50 ms to 2 s, and jitter."""
    told = p.decision.get("backoff_ms")
    base = told / 1000 if told is not None else min(0.05 * 2 ** attempt, 2.0)
    return base * random.uniform(0.5, 1.0)


def goes_on(p: Problem, attempt: int, attempts: int) -> bool:
    """The work is done again on a fresh transaction."""
    return p.decision.get("state") == "aborted" and p.retryable_decision and attempt + 1 < attempts


class Events:
    """Parser of server-sent events. Bytes in, (id, event, data) out."""

    def __init__(self) -> None:
        self._rest = b""
        self._event, self._data = "", []  # type: ignore[var-annotated]
        self._fresh = ""
        self.last = ""

    def feed(self, chunk: bytes) -> list[tuple[str, str, str]]:
        """The events that are whole with this chunk."""
        out = []
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode()
            if not line:
                # An id counts once its event is whole, so that a cut inside one loses nothing.
                self.last = self._fresh or self.last
                if self._data:
                    out.append((self.last, self._event, "\n".join(self._data)))
                self._event, self._data, self._fresh = "", [], ""
            elif not line.startswith(":"):
                name, _, value = line.partition(":")
                value = value[1:] if value.startswith(" ") else value
                if name == "data":
                    self._data.append(value)
                elif name == "event":
                    self._event = value
                elif name == "id":
                    self._fresh = value
        return out


def decisions_request(c: Config, last: str, filters: dict[str, Any]) -> Request:
    """Request of the stream of decisions, from after the last id that came."""
    headers = {"Accept": "text/event-stream", **identity(c)}
    if last:
        headers["Last-Event-ID"] = last
    query = {k: str(v).lower() if isinstance(v, bool) else v for k, v in filters.items() if v is not None}
    path = f"{c.prefix}/v1/workspaces/{quote(c.workspace, safe='')}/decisions"
    target = path + ("?" + urlencode(query) if query else "")
    return Request("GET", target, signed(c, "GET", target, headers, None), None, 60.0)
