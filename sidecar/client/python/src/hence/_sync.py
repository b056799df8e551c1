"""The sync client, over http.client: one kept connection for each thread."""

from __future__ import annotations

import functools
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from . import _core
from .errors import Problem, Unavailable, problem

if TYPE_CHECKING:
    from ._shapes import Decision, Offer, Planned, Receipt, Shard

T = TypeVar("T")


class Client:
    """A sidecar's client. Threads may share it."""

    def __init__(self, url: str = "", token: str = "", workspace: str = "", *, session: str = "", agent: str = "",
                 patience: float = 60.0, attempts: int = 10, key_file: str = ""):
        self.config = _core.config(url, token, workspace, session, agent, patience, attempts, key_file)
        self._local = threading.local()

    def drive(self, flow: _core.Flow) -> Any:
        """Runs a flow: sends what it asks for, waits where it says."""
        try:
            step = next(flow)
            while True:
                if not isinstance(step, _core.Request):
                    time.sleep(step)
                    step = flow.send(None)
                    continue
                try:
                    answer = self._send(step)
                except (OSError, EOFError) as e:
                    step = flow.throw(e)
                else:
                    step = flow.send(answer)
        except StopIteration as done:
            return done.value

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        host, port, tls = self.config.address
        kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
        return kind(host, port, timeout=timeout)

    def _send(self, request: _core.Request) -> _core.Answer:
        conn = getattr(self._local, "conn", None)
        kept = conn is not None
        while True:
            if conn is None:
                conn = self._connect(request.timeout)
            if conn.sock is not None:
                conn.sock.settimeout(request.timeout)
            conn.timeout = request.timeout
            try:
                conn.request(request.method, request.path, body=request.body, headers=request.headers)
                answer = conn.getresponse()
                body = answer.read()
            except BaseException as e:
                # What is left in a broken connection belongs to no request: it is never used again.
                conn.close()
                self._local.conn = conn = None
                if kept and isinstance(e, (http.client.RemoteDisconnected, ConnectionError)):
                    kept = False  # the server had closed the kept connection: at once on a new one
                    continue
                if isinstance(e, http.client.HTTPException):
                    raise ConnectionError(f"the answer is no HTTP, or is cut: {e!r}") from e
                raise
            self._local.conn = None if answer.will_close else conn
            headers = {k.lower(): v for k, v in answer.getheaders()}
            return _core.Answer(answer.status, headers, body)

    def close(self) -> None:
        """Closes the connection of this thread."""
        conn = getattr(self._local, "conn", None)
        if conn is not None:
            conn.close()
            self._local.conn = None

    def tx(self, *, key: str = "", pins: list[dict[str, str]] | None = None, **begin: Any) -> Tx:
        """A transaction for a with block. It begins there, and settles at the block's end."""
        return Tx(self, begin, key, pins)

    def transaction(self, work: Callable[..., T] | None = None, /, *, attempts: int = 0, **begin: Any) -> Any:
        """Decorator: the function is given a transaction first, and is run again while it is refused and may be."""
        if work is None:
            return functools.partial(self.transaction, attempts=attempts, **begin)

        @functools.wraps(work)
        def run(*args: Any, **kwargs: Any) -> T:
            return self.run(lambda t: work(t, *args, **kwargs), attempts=attempts, **begin)

        return run

    def run(self, work: Callable[[Tx], T], *, attempts: int = 0, key: str = "", **begin: Any) -> T:
        """Runs work(tx) to a commit, again on a fresh transaction after each refusal that may be tried again."""
        tx, bound, attempt = self.tx(key=key, **begin), attempts or self.config.attempts, 0
        while True:
            try:
                with tx:
                    result = work(tx)
                return result
            except Problem as p:
                if p.decision.get("tx") != tx.id or not _core.goes_on(p, attempt, bound):
                    raise
                time.sleep(_core.pause_of(p, attempt))
                attempt += 1
                tx = Tx(self, begin, "", None, after=tx.id)

    def tools(self) -> list[Offer]:
        """What the policy offers to agents: name, arguments as JSON Schema, class and when it runs."""
        return self.drive(_core.tools(self.config))

    def decisions(self, after: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Every decision as it comes, each once, as a CloudEvent with its seq in "id". Reconnects where it was cut."""
        last, pause, until = "", 0.05, time.monotonic() + self.config.patience
        while True:
            events = _core.Events()
            try:
                for chunk in self._stream(_core.decisions_request(self.config, last, {"after": after, **filters})):
                    for _, kind, data in events.feed(chunk):
                        last, pause, until = events.last, 0.05, time.monotonic() + self.config.patience
                        yield {"kind": kind, **json.loads(data)}
                    last = events.last or last
            except (OSError, http.client.HTTPException) as e:
                if time.monotonic() >= until:
                    raise Unavailable({"code": "no_sidecar_answers", "detail": f"{self.config.url}: {e}"}) from e
            time.sleep(pause)
            pause = min(2 * pause, 3.0)

    def _stream(self, request: _core.Request) -> Iterator[bytes]:
        conn = self._connect(request.timeout)
        try:
            conn.request(request.method, request.path, headers=request.headers)
            answer = conn.getresponse()
            if answer.status != 200:
                p = problem(_core.problem_of(_core.Answer(answer.status, {}, answer.read())))
                if not _core.again(p):
                    raise p
                return
            while chunk := answer.read1(65536):
                yield chunk
        finally:
            conn.close()


class Tx:
    """One transaction. Reads and writes by name; at the end of its with block it has committed, or an error is raised."""

    def __init__(self, client: Client, begin: dict[str, Any], key: str, pins: list[dict[str, str]] | None,
                 after: str = ""):
        self._client, self._begin, self._key, self._pins, self._after = client, begin, key, pins, after
        self.id = ""
        #: Once it is over: the decision.
        self.decision: Decision | None = None

    def _do(self, flow: Callable[..., _core.Flow], *args: Any, **kwargs: Any) -> Any:
        return self._client.drive(flow(self._client.config, *args, **kwargs))

    def begin(self) -> Tx:
        """Begins it; a with block does."""
        self.id = (self._do(_core.retry, self._after) if self._after
                   else self._do(_core.begin, self._begin, self._key))["tx"]
        return self

    __enter__ = begin

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.seal()
        elif not (isinstance(error, Problem) and error.decision.get("tx") == self.id):
            self.abort(f"{type(error).__name__}: {error}")

    def __getitem__(self, name: str) -> Any:
        """The JSON value, the text or the bytes of a shard. KeyError: nothing is there."""
        shard = self.read(name)
        if not shard["exists"]:
            raise KeyError(name)  # a read as any other: that it is absent must still hold at the commit
        return _core.value_of(shard)

    def get(self, name: str, default: Any = None) -> Any:
        """As tx[name], with a default for what is absent."""
        shard = self.read(name)
        return _core.value_of(shard) if shard["exists"] else default

    def __setitem__(self, name: str, value: Any) -> None:
        self.write(name, value)

    def read(self, name: str, **more: Any) -> Shard:
        """Reads a scope, with its version; limit, announce, for_update as in the HTTP reference."""
        return self._do(_core.read, self.id, name, **more)

    def write(self, name: str, value: Any, **more: Any) -> dict[str, Any]:
        """Writes a shard: bytes, a text, or JSON; if_version, op as in the HTTP reference."""
        return self._do(_core.write, self.id, name, value, **more)

    def plan(self, calls: list[str]) -> Planned:
        """Says the order of calls, by ids of your own, before they are made side by side."""
        return self._do(_core.plan, self.id, calls)

    def call(self, tool: str, args: dict[str, Any] | None = None, *, call: str = "", key: str = "") -> Receipt:
        """Calls a tool. A held call's receipt has the state held: it leaves after the commit, do not make it again."""
        return self._do(_core.call, self.id, tool, args or {}, call, key)

    def effects(self) -> dict[str, Any]:
        """The calls of this transaction, as they stand."""
        return self._do(_core.ask, "GET", f"/v1/tx/{self.id}/effects")

    def seal(self) -> Decision:
        """Settles it, and waits for the decision. Refused: an abort, with its code and what to read again."""
        try:
            self.decision = self._do(_core.decide, self.id, self._pins)
        except Problem as p:
            self.decision = p.decision or None  # type: ignore[assignment]
            raise
        return self.decision  # type: ignore[return-value]

    def abort(self, reason: str = "") -> None:
        """Ends it: what was done is taken back, what is held never leaves."""
        self._do(_core.abort, self.id, reason)
