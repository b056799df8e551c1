"""LangGraph: a ToolNode whose turns are transactions, and a store that loses no update.

    from hence.langgraph import HenceToolNode, HenceStore
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, unquote

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp,
)

from . import _core, aio
from . import _sync as sync
from ._declared import declared, policy_names
from .errors import HenceError, Problem, Refused, UnknownLocalTool

_turn: contextvars.ContextVar[_Turn | None] = contextvars.ContextVar("hence_turn", default=None)


class _Turn:
    """One turn of a model: its transaction, and the order in which local tools that act take theirs."""

    def __init__(self, tx: str, key: str, acts: list[str]):
        self.tx, self.key, self.acts = tx, key, acts
        self.acted = False
        self._changed = threading.Condition()
        self._events: dict[str, asyncio.Event] = {}

    def wait(self, call: str) -> None:
        """Waits until each local tool that acts and was asked for before is through."""
        with self._changed:
            self._changed.wait_for(lambda: call not in self.acts or self.acts[0] == call)

    async def await_turn(self, call: str) -> None:
        """The same in a task. It takes no thread: the tool before may need the last one of the pool."""
        while call in self.acts and self.acts[0] != call:
            event = self._events.setdefault(call, asyncio.Event())
            await event.wait()

    def through(self, call: str) -> None:
        """Lets the next one on."""
        with self._changed:
            if call in self.acts:
                self.acts.remove(call)
            self._changed.notify_all()
        if self.acts and self.acts[0] in self._events:
            self._events[self.acts[0]].set()


class HenceToolNode(ToolNode):
    """A ToolNode whose calls settle as one transaction.

    A tool that the policy knows is called by the sidecar, under the turn's plan, so that calls leave in the order in
    which the model asked for them. Another one has to be declared by hence.reads(tool) or hence.acts(tool).
    """

    def __init__(self, tools: Sequence[Any], *, client: sync.Client | None = None,
                 wrap_tool_call: Callable[..., Any] | None = None,
                 awrap_tool_call: Callable[..., Any] | None = None, **more: Any):
        def inner(request: Any, execute: Callable[..., Any]) -> Any:
            done = (lambda r: self._one(r, execute))
            try:
                return wrap_tool_call(request, done) if wrap_tool_call else done(request)
            finally:
                _through(request)

        async def ainner(request: Any, execute: Callable[..., Any]) -> Any:
            async def done(r: Any) -> Any:
                return await self._aone(r, execute)

            try:
                if awrap_tool_call:
                    return await awrap_tool_call(request, done)
                return await done(request)
            finally:
                _through(request)

        super().__init__(tools, wrap_tool_call=inner, awrap_tool_call=ainner, **more)
        self._functions = {name: (tool, getattr(tool, "func", None), getattr(tool, "coroutine", None))
                           for name, tool in self.tools_by_name.items()}
        self._client = client
        self._aclient: aio.Client | None = None
        self._policy: dict[str, str] | None = None

    def _sync_client(self) -> sync.Client:
        if self._client is None:
            # A conversation of its own: what a store or another node has read is not this one's ground.
            self._client = sync.Client(session="langgraph-" + uuid.uuid4().hex)
        return self._client

    def _async_client(self) -> aio.Client:
        if self._aclient is None:
            c = self._sync_client().config
            self._aclient = aio.Client(c.url, c.token, c.workspace, session=c.session, agent=c.agent,
                                       patience=c.patience, attempts=c.attempts, key_file=c.key_file)
        return self._aclient

    def _known(self, config: _core.Config) -> _core.Flow:
        """Names of the policy's tools. A local one of none of these has to be declared: else it is refused here."""
        if self._policy is None:
            self._policy = policy_names((yield from _core.tools(config)))
        for name, spellings in self._functions.items():
            if name not in self._policy and not declared(*spellings):
                raise UnknownLocalTool(
                    f"the policy does not know the tool {name!r}, so its effects are unknown: declare it in the "
                    "policy, or wrap it as hence.reads(tool) if it only looks, as hence.acts(tool) if it may act "
                    "outside of Hence")

    def _begin(self, config: _core.Config, calls: list[Any], key: str) -> _core.Flow:
        """Begins the turn's transaction. A replayed checkpoint gets the same one, unless that was aborted."""
        yield from self._known(config)
        for n in range(config.attempts):
            tx = (yield from _core.begin(config, {}, f"{key}/{n}"))["tx"]
            state = yield from _core.status(config, tx)
            if state["state"] != "aborted":
                break  # open, or committed: then each call is answered as it was
        planned = [c["id"] for c in calls if c["name"] in self._policy]
        if planned:
            yield from _core.ask(config, "POST", f"/v1/tx/{tx}/plan", {"calls": planned}, f"{key}/{n}/plan")
        acts = [c["id"] for c in calls if declared(*self._functions.get(c["name"], ())) == "acts"]
        return _Turn(tx, f"{key}/{n}", acts)

    def _effect(self, config: _core.Config, turn: _Turn, call: Any) -> _core.Flow:
        body = {"tool": (self._policy or {})[call["name"]], "args": call["args"], "call": call["id"]}
        receipt = yield from _core.ask(config, "POST", f"/v1/tx/{turn.tx}/effects", body, f"{turn.key}/{call['id']}")
        text = receipt.get("result", receipt.get("note") or receipt["state"])
        if receipt["state"] == "failed":
            return _message(call, receipt.get("detail") or "the tool refused", "error")
        return _message(call, text if isinstance(text, str) else json.dumps(text, ensure_ascii=False), artifact=receipt)

    def _one(self, request: Any, execute: Callable[..., Any]) -> Any:
        call, turn = request.tool_call, _turn.get()
        if call["name"] in (self._policy or ()):
            client = self._sync_client()
            return client.drive(self._effect(client.config, turn, call))
        turn.wait(call["id"])
        turn.acted = turn.acted or call["id"] in turn.acts
        return execute(request)

    async def _aone(self, request: Any, execute: Callable[..., Any]) -> Any:
        call, turn = request.tool_call, _turn.get()
        if call["name"] in (self._policy or ()):
            client = self._async_client()
            return await client.drive(self._effect(client.config, turn, call))
        if call["id"] in turn.acts:
            turn.acted = True
            await turn.await_turn(call["id"])
        return await execute(request)

    def _func(self, input: Any, config: RunnableConfig, runtime: Runtime) -> Any:
        calls, kind = self._parse_input(input)
        if not calls:
            return super()._func(input, config, runtime)
        client, key = self._sync_client(), turn_key(config, calls, input, self._messages_key)
        for attempt in range(client.config.attempts):
            turn = client.drive(self._begin(client.config, calls, f"{key}/{attempt}"))
            token = _turn.set(turn)
            try:
                out = super()._func(input, config, runtime)
                client.drive(_core.decide(client.config, turn.tx))
                return out
            except Problem as p:
                if not self._again(p, turn, attempt, client.config.attempts):
                    if p.decision.get("tx") != turn.tx:  # else it is over
                        client.drive(_core.abort(client.config, turn.tx, p.code))
                    return self._told(p, turn, calls, kind)
            except BaseException as e:
                client.drive(_core.abort(client.config, turn.tx, type(e).__name__))
                raise
            finally:
                _turn.reset(token)
        raise AssertionError("the last attempt returns or raises")

    async def _afunc(self, input: Any, config: RunnableConfig, runtime: Runtime) -> Any:
        calls, kind = self._parse_input(input)
        if not calls:
            return await super()._afunc(input, config, runtime)
        client, key = self._async_client(), turn_key(config, calls, input, self._messages_key)
        for attempt in range(client.config.attempts):
            turn = await client.drive(self._begin(client.config, calls, f"{key}/{attempt}"))
            token = _turn.set(turn)
            try:
                out = await super()._afunc(input, config, runtime)
                await client.drive(_core.decide(client.config, turn.tx))
                return out
            except Problem as p:
                if not self._again(p, turn, attempt, client.config.attempts):
                    if p.decision.get("tx") != turn.tx:  # else it is over
                        await client.drive(_core.abort(client.config, turn.tx, p.code))
                    return self._told(p, turn, calls, kind)
            except BaseException as e:
                await client.drive(_core.abort(client.config, turn.tx, type(e).__name__))
                raise
            finally:
                _turn.reset(token)
        raise AssertionError("the last attempt returns or raises")

    def _again(self, p: Problem, turn: _Turn, attempt: int, attempts: int) -> bool:
        """The same calls are made again where only the order stood in the way; a stale ground is the model's to see."""
        stood = p.code in ("conflict", "wounded", "deadline", "lease_expired", "rules_changed")
        return stood and not turn.acted and _core.goes_on(p, attempt, attempts)

    def _told(self, p: Problem, turn: _Turn, calls: list[Any], kind: str) -> Any:
        """Tells the model that the turn was refused: nothing of it counts."""
        if not isinstance(p, Refused) or p.decision.get("tx") != turn.tx:
            raise p
        again = f" Read again before another attempt: {', '.join(p.re_read)}." if p.re_read else ""
        text = f"Refused ({p.code}): {p.detail or p.title}. Nothing of this turn has happened.{again}"
        return self._combine_tool_outputs([_message(c, text, "error", p.decision) for c in calls], kind)


def _through(request: Any) -> None:
    turn = _turn.get()
    if turn is not None:
        turn.through(request.tool_call["id"])


def _message(call: Any, text: str, status: str = "success", artifact: Any = None) -> ToolMessage:
    return ToolMessage(content=text, name=call["name"], tool_call_id=call["id"], status=status, artifact=artifact)


def turn_key(config: Any, calls: list[Any], input: Any, messages_key: str = "messages") -> str:
    """Idempotency-Key of a turn: of its thread, its node, and the model's message as the checkpoint has it.

    The checkpoint's own id would not do: a replay of a checkpoint forks it, and the fork has another id.
    """
    c = config.get("configurable", {})
    state = input.get("state", input) if isinstance(input, dict) else input
    messages = state if isinstance(state, list) else _messages(state, messages_key)
    at = next((n for n in range(len(messages) - 1, -1, -1) if getattr(messages[n], "type", "") == "ai"), -1)
    said = getattr(messages[at], "id", None) if at >= 0 else None
    if not c.get("thread_id") or not said:  # nothing names the turn: it is not to be taken for an earlier one
        return "langgraph/" + uuid.uuid4().hex
    nodes = [part.split(":")[0] for part in (c.get("checkpoint_ns") or "").split("|")]
    parts = [c["thread_id"], nodes, at, said, [[call["id"], call["name"], call["args"]] for call in calls]]
    return "langgraph/" + hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _messages(state: Any, key: str) -> list[Any]:
    found = state.get(key) if isinstance(state, dict) else getattr(state, key, None)
    return found if isinstance(found, list) else []


class HenceStore(BaseStore):
    """A LangGraph store over shards. What a thread of work has read and then builds on must still hold at its put.

    Each get is a read of the store's conversation, at the version that it saw; a put settles with those reads. If one
    was overwritten since, the put is refused with StaleRead; update(namespace, key, work) reads, works and puts again.
    Give each worker a store of its own: a store is one conversation.
    """

    supports_ttl = False

    def __init__(self, client: sync.Client | None = None, *, prefix: str = "store"):
        self._client = client or sync.Client(session="store-" + uuid.uuid4().hex)
        self._prefix = prefix.strip("/")
        # Invariant: what was read since the last put that settled, with the versions it had.
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carries out operations: reads in their order, then all puts in one transaction."""
        ops, out, puts = list(ops), [], []
        for op in ops:
            if isinstance(op, GetOp):
                out.append(self._get(op))
            elif isinstance(op, SearchOp):
                out.append(self._search(op))
            elif isinstance(op, ListNamespacesOp):
                out.append(self._namespaces(op))
            elif isinstance(op, PutOp):
                puts.append(op)
                out.append(None)
            else:
                raise HenceError(f"the store knows no operation {type(op).__name__}")
        if puts:
            self._put(puts)
        return out

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As batch, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def update(self, namespace: tuple[str, ...], key: str, work: Callable[[Any], Any]) -> Any:
        """Puts work(value) over the value, None if absent; does it again on the new value while another was faster."""
        for attempt in range(self._client.config.attempts):
            item = self.get(namespace, key)
            value = work(item.value if item else None)
            try:
                self.put(namespace, key, value)
                return value
            except Refused as p:  # after any other the put may have counted: work would be done twice
                if not p.retryable or attempt + 1 == self._client.config.attempts:
                    raise
                self._client.drive(_pause(_core.pause_of(p, attempt)))
        raise AssertionError("the last attempt returns or raises")

    def _scope(self, namespace: tuple[str, ...], key: str) -> str:
        parts = [self._prefix, *namespace, key]
        return "shard:/" + "/".join(quote(part, safe="") for part in parts)

    def _get(self, op: GetOp) -> Item | None:
        scope = self._scope(op.namespace, op.key)
        return self._item(self._read([scope])[0], op.namespace, op.key)

    def _read(self, scopes: list[str]) -> list[dict[str, Any]]:
        c = self._client.config
        path = f"/v1/workspaces/{quote(c.workspace, safe='')}/reads"
        items = self._client.drive(_core.ask(c, "POST", path, {"scopes": scopes}))["items"]
        with self._lock:
            for item in items:
                # The first version that was seen counts: what was thought since rests on it.
                self._seen.setdefault(item["scope"], item.get("version", 0))
        return items

    def _item(self, shard: dict[str, Any], namespace: tuple[str, ...], key: str) -> Item | None:
        kept = _core.value_of(shard) if shard["exists"] else None
        if not isinstance(kept, dict) or kept.get("value") is None:
            return None
        return Item(value=kept["value"], key=key, namespace=namespace,
                    created_at=datetime.fromisoformat(kept["created_at"]),
                    updated_at=datetime.fromisoformat(kept["updated_at"]))

    def _put(self, puts: list[PutOp]) -> None:
        c, now = self._client.config, datetime.now(timezone.utc).isoformat()
        writes = {}
        for op in puts:
            kept = None if op.value is None else {"value": op.value, "created_at": now, "updated_at": now}
            scope = self._scope(op.namespace, op.key)
            writes[scope] = {"scope": scope, "value": kept}
        with self._lock:
            seen, self._seen = self._seen, {}
        reads = [{"scope": scope, "version": version} for scope, version in seen.items()]
        path = f"/v1/workspaces/{quote(c.workspace, safe='')}/commit"
        body = {"reads": reads, "writes": list(writes.values())}
        done = self._client.drive(_core.ask(c, "POST", path, body, query={"wait_ms": _core.WAIT_MS}))
        self._client.drive(_core.decide(c, done["tx"]))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.query:
            raise HenceError("the store has no index of meanings: search by namespace and filter, without query")
        found = []
        for namespace, key in self._listed(op.namespace_prefix):
            item = self._item(self._read([self._scope(namespace, key)])[0], namespace, key)
            if item and all(item.value.get(k) == v for k, v in (op.filter or {}).items()):
                found.append(SearchItem(namespace=namespace, key=key, value=item.value, created_at=item.created_at,
                                        updated_at=item.updated_at, score=None))
        return found[op.offset:op.offset + op.limit]

    def _listed(self, prefix: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
        c, out, after = self._client.config, [], ""
        base = "shard:/" + "/".join(quote(p, safe="") for p in [self._prefix, *prefix])
        while True:
            query = {"prefix": base, **({"after": after} if after else {})}
            page = self._client.drive(_core.ask(c, "GET", f"/v1/workspaces/{quote(c.workspace, safe='')}/shards",
                                                query=query))
            for item in page["items"]:
                parts = [unquote(p) for p in item["scope"].removeprefix("shard:/").split("/")]
                out.append((tuple(parts[1:-1]), parts[-1]))
            after = page.get("next", "")
            if not after:
                return out

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = sorted({ns[:op.max_depth] if op.max_depth else ns for ns, _ in self._listed(())})
        for condition in op.match_conditions or ():
            n = len(condition.path)
            found = [ns for ns in found if len(ns) >= n and all(
                want in ("*", part) for want, part in
                zip(condition.path, ns[:n] if condition.match_type == "prefix" else ns[len(ns) - n:]))]
        return found[op.offset:op.offset + op.limit]


def _pause(seconds: float) -> _core.Flow:
    yield seconds
