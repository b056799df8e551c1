from board import append
from hence.langgraph import HenceToolNode
from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from scripted import model


@tool
def board_post(line: str) -> str:
    """Post a line on the board."""
    append(line)
    return "posted"


tools = [board_post]
llm = model.bind_tools(tools)

graph = StateGraph(MessagesState)
graph.add_node("agent", lambda state: {"messages": [llm.invoke(state["messages"])]})
graph.add_node("tools", HenceToolNode(tools))
graph.set_entry_point("agent")
graph.add_conditional_edges("agent", tools_condition)
graph.add_edge("tools", "agent")
app = graph.compile()

out = app.invoke({"messages": [("user", "Sell two mugs.")]})
print(out["messages"][-1].content)
