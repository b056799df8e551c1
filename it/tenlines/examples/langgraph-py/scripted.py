"""A model that asks for two posts at once, and then says that it is done."""

from langchain_core.messages import AIMessage


class Scripted:
    def bind_tools(self, tools):
        return self

    def invoke(self, messages):
        if messages[-1].type == "tool":
            return AIMessage("done")
        calls = [{"id": str(n), "name": "board_post", "args": {"line": f"{n}. mug of a graph"}} for n in (1, 2)]
        return AIMessage("", tool_calls=calls)


model = Scripted()
