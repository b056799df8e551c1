"""A model that asks for two posts at once, and then says that it is done."""

import json

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class Scripted(Model):
    asked = False

    async def get_response(self, *args, **kwargs):
        if self.asked:
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            out = [ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")]
        else:
            out = [ResponseFunctionToolCall(call_id=str(n), name="board_post", type="function_call",
                                            arguments=json.dumps({"line": f"{n}. mug of an agent"})) for n in (1, 2)]
        self.asked = True
        return ModelResponse(output=out, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


model = Scripted()
