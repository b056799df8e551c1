"""One read and one held call through the MCP clients of LangChain and the OpenAI Agents SDK: older.py FILE."""

import asyncio
import json
import sys

from agents.mcp import MCPServerStreamableHttp
from langchain_mcp_adapters.client import MultiServerMCPClient


def say(client, tools, read, held):
    print(json.dumps({"client": client, "tools": tools, "read": str(read), "held": str(held)}))


async def main(job):
    headers = {"Authorization": "Bearer " + job["token"]}
    read, held = job["read"], job["held"]
    langchain = MultiServerMCPClient({"hence": {"transport": "streamable_http", "url": job["url"], "headers": headers}})
    tools = {tool.name: tool for tool in await langchain.get_tools()}
    say("langchain-mcp-adapters", len(tools), await tools[read["tool"]].ainvoke(read["args"]),
        await tools[held["tool"]].ainvoke(held["args"]))
    async with MCPServerStreamableHttp(name="hence", params={"url": job["url"], "headers": headers}) as openai:
        say("openai-agents", len(await openai.list_tools()), await openai.call_tool(read["tool"], read["args"]),
            await openai.call_tool(held["tool"], held["args"]))


asyncio.run(main(json.load(open(sys.argv[1], encoding="utf-8"))))
