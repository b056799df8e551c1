"""OpenAI Agents SDK: each turn of a model is a transaction.

    door = hence.openai_agents.Door()
    agent = Agent(name="shop", tools=door.tools([mail, look]))
    result = await Runner.run(agent, "...", hooks=door)
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import uuid
from collections.abc import Iterable
from typing import Any

from agents import FunctionTool, RunHooks
from openai.types.responses import ResponseFunctionToolCall

from . import _core, aio
from ._declared import declared, policy_names
from .errors import Problem, Refused, UnknownLocalTool


class _Turn:
    """A turn of a model: its calls, in the order in which it asked for them."""

    def __init__(self, calls: list[tuple[str, str]], run: Any):
        self.calls, self.run = calls, run
        self.left = {call for call, _ in calls}
        self.tx = ""
        self.sealed = False
        self.lock = asyncio.Lock()
        self.through = {call: asyncio.Event() for call, _ in calls}


class Door(RunHooks):
    """Hooks of a run, and the tools that belong to them. Without the hooks each call is a transaction of its own."""

    def __init__(self, client: aio.Client | None = None):
        self._client = client
        self._policy: dict[str, str] | None = None
        self._declared: dict[str, str] = {}
        #: Of the last turn that has settled.
        self.decision: dict[str, Any] | None = None
        # Invariant: a turn is listed under each of its calls until it is settled.
        self._turns: dict[str, _Turn] = {}

    @property
    def client(self) -> aio.Client:
        """The client, made from the environment at its first use."""
        if self._client is None:
            self._client = aio.Client(session="agents-" + uuid.uuid4().hex)
        return self._client

    def tools(self, tools: Iterable[FunctionTool]) -> list[FunctionTool]:
        """The tools as they are to be given to the agent: called by the sidecar where the policy knows their name."""
        return [self._wrapped(tool) for tool in tools]

    def _wrapped(self, tool: FunctionTool) -> FunctionTool:
        self._declared[tool.name] = declared(tool)

        async def invoke(context: Any, arguments: str) -> Any:
            turn = self._turns.get(context.tool_call_id)
            if turn is None:  # its turn was not announced
                turn = _Turn([(context.tool_call_id, tool.name)], None)
            return await self._call(turn, tool, context, arguments)

        return dataclasses.replace(tool, on_invoke_tool=invoke)

    async def _ready(self, turn: _Turn) -> None:
        """Begins the turn's transaction and its plan, at its first call."""
        c = self.client
        async with turn.lock:  # calls of a turn come side by side: one of them begins
            if turn.tx:
                return
            if self._policy is None:
                self._policy = policy_names(await c.tools())
            tx = (await c.drive(_core.begin(c.config, {}, uuid.uuid4().hex)))["tx"]
            planned = [call for call, name in turn.calls if name in self._policy]
            if planned:
                await c.drive(_core.plan(c.config, tx, planned))
            turn.tx = tx

    async def _call(self, turn: _Turn, tool: FunctionTool, context: Any, arguments: str) -> Any:
        c, call = self.client, context.tool_call_id
        await self._ready(turn)
        try:
            if tool.name in (self._policy or ()):
                out = await self._effect(turn, tool, call, arguments)
            elif self._declared[tool.name]:
                out = await self._local(turn, tool, context, arguments)
            else:
                raise UnknownLocalTool(
                    f"the policy does not know the tool {tool.name!r}, so its effects are unknown: declare it in "
                    "the policy, or wrap it as hence.reads(tool) if it only looks, as hence.acts(tool) if it may act "
                    "outside of Hence")
        except BaseException as e:
            if not turn.sealed:
                turn.sealed = True
                await c.drive(_core.abort(c.config, turn.tx, type(e).__name__))
            self._forget(turn)
            if isinstance(e, Refused) and e.decision.get("tx") == turn.tx:
                return _told(e)
            raise
        finally:
            if call in turn.through:
                turn.through[call].set()
        turn.left.discard(call)
        if turn.left:
            return out
        try:
            await self._settle(turn)
        except Refused as p:  # the last answer of the turn tells the model that nothing of it counts
            return _told(p)
        return out

    async def _effect(self, turn: _Turn, tool: FunctionTool, call: str, arguments: str) -> Any:
        c = self.client
        args = json.loads(arguments or "{}")
        body = {"tool": (self._policy or {})[tool.name], "args": args, "call": call}
        receipt = await c.drive(_core.ask(c.config, "POST", f"/v1/tx/{turn.tx}/effects", body))
        if receipt["state"] == "failed":
            return f"Failed: {receipt.get('detail') or 'the tool refused'}"
        return receipt.get("result", receipt.get("note") or receipt["state"])

    async def _local(self, turn: _Turn, tool: FunctionTool, context: Any, arguments: str) -> Any:
        if self._declared[tool.name] == "acts":
            for earlier, name in turn.calls:  # local tools that act go one after another, as they were asked for
                if earlier == context.tool_call_id:
                    break
                if self._declared.get(name) == "acts" and name not in (self._policy or ()):
                    await turn.through[earlier].wait()
        return await tool.on_invoke_tool(context, arguments)

    async def _settle(self, turn: _Turn) -> None:
        self._forget(turn)
        if turn.tx and not turn.sealed:
            turn.sealed = True
            self.decision = await self.client.drive(_core.decide(self.client.config, turn.tx))

    def _forget(self, turn: _Turn) -> None:
        for call, _ in turn.calls:
            self._turns.pop(call, None)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """The model has answered: its calls are a turn."""
        calls = [(item.call_id, item.name) for item in response.output if isinstance(item, ResponseFunctionToolCall)]
        ours = [(call, name) for call, name in calls if name in self._declared]
        if ours:
            turn = _Turn(ours, id(context.usage))
            self._turns.update({call: turn for call, _ in ours})

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        """The turn before is over, also where a guard kept one of its calls from coming."""
        await self._rest(context)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """The run is over."""
        await self._rest(context)

    async def _rest(self, context: Any) -> None:
        for turn in {id(t): t for t in self._turns.values() if t.run == id(context.usage)}.values():
            await self._settle(turn)


def _told(p: Problem) -> str:
    again = f" Read again before another attempt: {', '.join(p.re_read)}." if p.re_read else ""
    return f"Refused ({p.code}): {p.detail or p.title}. Nothing of this turn has happened, no other call either.{again}"
