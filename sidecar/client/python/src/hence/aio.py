"""The async client, over asyncio streams, with an HTTP/1.1 of its own: nothing but the standard library."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import _core
from .errors import Problem, Unavailable, problem

if TYPE_CHECKING:
    from ._shapes import Decision, Offer, Planned, Receipt, Shard

T = TypeVar("T")

MAX_HEADERS = 200
MAX_IDLE = 16


class _Connection:
    """One connection: requests one after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str):
        self.reader, self.writer, self.host = reader, writer, host
        self.keep = False

    @classmethod
    async def open(cls, c: _core.Config) -> _Connection:
        host, port, tls = c.address
        reader, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context() if tls else None)
        name = f"[{host}]" if ":" in host else host
        return cls(reader, writer, f"{name}:{port}")

    async def ask(self, request: _core.Request) -> tuple[int, dict[str, str]]:
        """Sends a request, and reads the head of the answer."""
        lines = [f"{request.method} {request.path} HTTP/1.1", f"Host: {self.host}"]
        lines += [f"{k}: {v}" for k, v in request.headers.items()]
        if request.body is not None or request.method != "GET":
            lines.append(f"Content-Length: {len(request.body or b'')}")
        if any("\r" in line or "\n" in line for line in lines):  # a header of two lines would be two headers
            raise ValueError("a header or path contains a line break")
        self.writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (request.body or b""))
        await self.writer.drain()
        while True:
            status, headers = await self._head()
            if status >= 200:  # 1xx come before the answer
                return status, headers

    async def _head(self) -> tuple[int, dict[str, str]]:
        first = await self._line()
        if not first.startswith("HTTP/1."):
            raise ConnectionError(f"the answer is no HTTP: {first[:60]!r}")
        headers: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = await self._line()
            if not line:
                self.keep = headers.get("connection", "").lower() != "close" and first.startswith("HTTP/1.1")
                return int(first.split()[1]), headers
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        raise ConnectionError("the answer has too many headers")

    async def _line(self) -> str:
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the connection was closed in the middle of an answer")
        return line.rstrip(b"\r\n").decode("latin-1")

    async def body(self, status: int, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """The body, piece by piece: chunked, of a length, or up to the end of the connection."""
        if status in (204, 304):
            return
        if "chunked" in headers.get("transfer-encoding", "").lower():
            while size := int((await self._line()).split(";")[0], 16):
                while size:
                    piece = await self.reader.read(min(size, 65536))
                    if not piece:
                        raise ConnectionResetError("the connection was closed in the middle of an answer")
                    size -= len(piece)
                    yield piece
                await self._line()
            while await self._line():
                pass  # trailers
        elif "content-length" in headers:
            yield await self.reader.readexactly(int(headers["content-length"]))
        else:
            self.keep = False
            while piece := await self.reader.read(65536):
                yield piece

    def close(self) -> None:
        self.writer.close()


class Client:
    """A sidecar's client. Tasks of any number of event loops may share it."""

    def __init__(self, url: str = "", token: str = "", workspace: str = "", *, session: str = "", agent: str = "",
                 patience: float = 60.0, attempts: int = 10, key_file: str = ""):
        self.config = _core.config(url, token, workspace, session, agent, patience, attempts, key_file)
        # A connection belongs to the loop that has opened it.
        self._idle: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Connection]] = (
            weakref.WeakKeyDictionary())

    async def drive(self, flow: _core.Flow) -> Any:
        """Runs a flow: sends what it asks for, waits where it says."""
        try:
            step = next(flow)
            while True:
                if not isinstance(step, _core.Request):
                    await asyncio.sleep(step)
                    step = flow.send(None)
                    continue
                try:
                    answer = await asyncio.wait_for(self._send(step), step.timeout)
                except asyncio.TimeoutError:
                    step = flow.throw(TimeoutError(f"no answer in {step.timeout:g} s"))
                except (OSError, EOFError) as e:
                    step = flow.throw(e)
                else:
                    step = flow.send(answer)
        except StopIteration as done:
            return done.value

    async def _send(self, request: _core.Request) -> _core.Answer:
        idle = self._idle.setdefault(asyncio.get_running_loop(), [])
        while True:
            kept = bool(idle)
            conn = idle.pop() if idle else await _Connection.open(self.config)
            try:
                status, headers = await conn.ask(request)
                body = b"".join([piece async for piece in conn.body(status, headers)])
            except BaseException as e:
                # Also when the task is cancelled: what is left in this connection belongs to no request.
                conn.close()
                if kept and isinstance(e, (ConnectionError, EOFError)):
                    continue  # the server had closed the kept connection: at once on the next one
                raise
            if conn.keep and len(idle) < MAX_IDLE:
                idle.append(conn)
            else:
                conn.close()
            return _core.Answer(status, headers, body)

    async def close(self) -> None:
        """Closes the idle connections of this loop."""
        for conn in self._idle.pop(asyncio.get_running_loop(), []):
            conn.close()
            try:
                await conn.writer.wait_closed()
            except OSError:
                pass  # the other end was faster

    def tx(self, *, key: str = "", pins: list[dict[str, str]] | None = None, **begin: Any) -> Tx:
        """A transaction for an async with block. It begins there, and settles at the block's end."""
        return Tx(self, begin, key, pins)

    def transaction(self, work: Callable[..., Awaitable[T]] | None = None, /, *, attempts: int = 0,
                    **begin: Any) -> Any:
        """Decorator: the coroutine function is given a transaction first, and is run again while it may be."""
        if work is None:
            return functools.partial(self.transaction, attempts=attempts, **begin)

        @functools.wraps(work)
        async def run(*args: Any, **kwargs: Any) -> T:
            return await self.run(lambda t: work(t, *args, **kwargs), attempts=attempts, **begin)

        return run

    async def run(self, work: Callable[[Tx], Awaitable[T]], *, attempts: int = 0, key: str = "", **begin: Any) -> T:
        """Runs work(tx) to a commit, again on a fresh transaction after each refusal that may be tried again."""
        tx, bound, attempt = self.tx(key=key, **begin), attempts or self.config.attempts, 0
        while True:
            try:
                async with tx:
                    result = await work(tx)
                return result
            except Problem as p:
                if p.decision.get("tx") != tx.id or not _core.goes_on(p, attempt, bound):
                    raise
                await asyncio.sleep(_core.pause_of(p, attempt))
                attempt += 1
                tx = Tx(self, begin, "", None, after=tx.id)

    async def tools(self) -> list[Offer]:
        """What the policy offers to agents: name, arguments as JSON Schema, class and when it runs."""
        return await self.drive(_core.tools(self.config))

    async def decisions(self, after: int | None = None, **filters: Any) -> AsyncIterator[dict[str, Any]]:
        """Every decision as it comes, each once, as a CloudEvent with its seq in "id". Reconnects where it was cut."""
        last, pause, until = "", 0.05, time.monotonic() + self.config.patience
        while True:
            events = _core.Events()
            try:
                conn = await _Connection.open(self.config)
                try:
                    status, headers = await conn.ask(_core.decisions_request(self.config, last,
                                                                             {"after": after, **filters}))
                    if status != 200:
                        body = b"".join([piece async for piece in conn.body(status, headers)])
                        p = problem(_core.problem_of(_core.Answer(status, headers, body)))
                        if not _core.again(p) or time.monotonic() >= until:
                            raise p
                    else:
                        async for chunk in conn.body(status, headers):
                            for _, kind, data in events.feed(chunk):
                                last, pause, until = events.last, 0.05, time.monotonic() + self.config.patience
                                yield {"kind": kind, **json.loads(data)}
                            last = events.last or last
                finally:
                    conn.close()
            except (OSError, EOFError) as e:
                if time.monotonic() >= until:
                    raise Unavailable({"code": "no_sidecar_answers", "detail": f"{self.config.url}: {e}"}) from e
            await asyncio.sleep(pause)
            pause = min(2 * pause, 3.0)


class Tx:
    """One transaction: await its methods. At the end of its async with block it has committed, or an error is raised."""

    def __init__(self, client: Client, begin: dict[str, Any], key: str, pins: list[dict[str, str]] | None,
                 after: str = ""):
        self._client, self._begin, self._key, self._pins, self._after = client, begin, key, pins, after
        self.id = ""
        #: Once it is over: the decision.
        self.decision: Decision | None = None

    async def _do(self, flow: Callable[..., _core.Flow], *args: Any, **kwargs: Any) -> Any:
        return await self._client.drive(flow(self._client.config, *args, **kwargs))

    async def begin(self) -> Tx:
        """Begins it; an async with block does."""
        self.id = (await self._do(_core.retry, self._after) if self._after
                   else await self._do(_core.begin, self._begin, self._key))["tx"]
        return self

    __aenter__ = begin

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            await self.seal()
        elif not (isinstance(error, Problem) and error.decision.get("tx") == self.id):
            await self.abort(f"{type(error).__name__}: {error}")

    async def __getitem__(self, name: str) -> Any:
        """`await t["orders/1"]`: the JSON value, the text or the bytes of a shard. KeyError: nothing is there."""
        shard = await self.read(name)
        if not shard["exists"]:
            raise KeyError(name)  # a read as any other: that it is absent must still hold at the commit
        return _core.value_of(shard)

    async def get(self, name: str, default: Any = None) -> Any:
        """As `await tx[name]`, with a default for what is absent."""
        shard = await self.read(name)
        return _core.value_of(shard) if shard["exists"] else default

    async def set(self, name: str, value: Any) -> None:
        """Writes a shard: an assignment cannot be awaited."""
        await self.write(name, value)

    async def read(self, name: str, **more: Any) -> Shard:
        """Reads a scope, with its version; limit, announce, for_update as in the HTTP reference."""
        return await self._do(_core.read, self.id, name, **more)

    async def write(self, name: str, value: Any, **more: Any) -> dict[str, Any]:
        """Writes a shard: bytes, a text, or JSON; if_version, op as in the HTTP reference."""
        return await self._do(_core.write, self.id, name, value, **more)

    async def plan(self, calls: list[str]) -> Planned:
        """Says the order of calls, by ids of your own, before they are made side by side."""
        return await self._do(_core.plan, self.id, calls)

    async def call(self, tool: str, args: dict[str, Any] | None = None, *, call: str = "", key: str = "") -> Receipt:
        """Calls a tool. A held call's receipt has the state held: it leaves after the commit, do not make it again."""
        return await self._do(_core.call, self.id, tool, args or {}, call, key)

    async def effects(self) -> dict[str, Any]:
        """The calls of this transaction, as they stand."""
        return await self._do(_core.ask, "GET", f"/v1/tx/{self.id}/effects")

    async def seal(self) -> Decision:
        """Settles it, and waits for the decision. Refused: an abort, with its code and what to read again."""
        try:
            self.decision = await self._do(_core.decide, self.id, self._pins)
        except Problem as p:
            self.decision = p.decision or None  # type: ignore[assignment]
            raise
        return self.decision  # type: ignore[return-value]

    async def abort(self, reason: str = "") -> None:
        """Ends it: what was done is taken back, what is held never leaves."""
        await self._do(_core.abort, self.id, reason)


@functools.lru_cache(maxsize=1)
def default() -> Client:
    """The client that the environment describes, made at its first use."""
    return Client()


def tx(**begin: Any) -> Tx:
    """A transaction of the default client: `async with hence.aio.tx() as t`."""
    return default().tx(**begin)


def transaction(work: Any = None, /, **begin: Any) -> Any:
    """Decorator over the default client, as Client.transaction. The client is made when the function is called."""
    if work is None:
        return functools.partial(transaction, **begin)

    @functools.wraps(work)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await default().transaction(work, **begin)(*args, **kwargs)

    return run


async def tools() -> list[Offer]:
    """What the policy offers to agents."""
    return await default().tools()


def decisions(after: int | None = None, **filters: Any) -> AsyncIterator[dict[str, Any]]:
    """Every decision as it comes."""
    return default().decisions(after, **filters)
