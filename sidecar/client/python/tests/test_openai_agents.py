"""The OpenAI Agents SDK over a running sidecar, with a scripted model."""

import dataclasses
import json
import unittest
import uuid

import hence

try:
    from agents import Agent, Model, ModelResponse, Runner, Usage, UserError, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from hence.openai_agents import Door
except ImportError as e:
    raise unittest.SkipTest(f"{e}: pip install 'hence-client[openai-agents]'") from e

set_tracing_disabled(True)


class Scripted(Model):
    """Answers with the turns that it was given, and keeps what it was shown."""

    def __init__(self, *turns):
        self.turns, self.shown = list(turns), []

    async def get_response(self, system_instructions, input, *args, **kwargs):
        self.shown.append(input)
        if not self.turns:
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            out = [ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")]
        else:
            out = [ResponseFunctionToolCall(call_id=i, name=name, arguments=json.dumps(args), type="function_call")
                   for i, name, args in self.turns.pop(0)]
        return ModelResponse(output=out, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError("the tests do not stream")


@function_tool(name_override="board.post")
def post(line: str) -> str:
    """Post a line."""
    raise AssertionError("the sidecar makes this call")


@function_tool
def look(q: str) -> str:
    """Look something up."""
    return "seen " + q


def outputs(model):
    return [i["output"] for i in model.shown[-1] if i.get("type") == "function_call_output"]


class Turns(unittest.IsolatedAsyncioTestCase):
    async def run_turns(self, tools, *turns):
        model, door = Scripted(*turns), Door()
        agent = Agent(name="shop", model=model, tools=door.tools(tools))
        result = await Runner.run(agent, "go", hooks=door)
        self.assertEqual(result.final_output, "done")
        self.door = door
        if door.decision:
            self.effects = await door.client.drive(
                hence._core.ask(door.client.config, "GET", f"/v1/tx/{door.decision['tx']}/effects"))
        await door.client.close()
        return model

    async def test_turn_is_one_transaction(self):
        mark = uuid.uuid4().hex
        calls = [(f"{mark}{n}", "board.post", {"line": f"{mark}{n}"}) for n in range(4)]
        model = await self.run_turns([post, hence.reads(look)], calls + [("q", "look", {"q": "a"})])
        self.assertEqual(outputs(model)[-1], "seen a")
        self.assertEqual(self.door.decision["state"], "committed")
        self.assertEqual([e["call"] for e in self.effects["effects"]], [call[0] for call in calls])

    async def test_unknown_local_tool_is_refused(self):
        with self.assertRaisesRegex(UserError, "hence.reads"):  # the SDK's own error around ours; the run ends
            await self.run_turns([look], [("u", "look", {"q": "a"})])

    async def test_plain_name(self):
        """APIs of models take no "." in a name: board_post is the policy's board.post."""
        plain = dataclasses.replace(post, name="board_post")
        mark = uuid.uuid4().hex
        await self.run_turns([plain], [(mark, "board_post", {"line": mark})])
        self.assertEqual([e["call"] for e in self.effects["effects"]], [mark])

    async def test_two_turns(self):
        mark = uuid.uuid4().hex
        await self.run_turns([post], [(mark + "a", "board.post", {"line": mark + "a"})],
                             [(mark + "b", "board.post", {"line": mark + "b"})])
        self.assertEqual([e["call"] for e in self.effects["effects"]], [mark + "b"])


if __name__ == "__main__":
    unittest.main()
