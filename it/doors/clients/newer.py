"""One read and one held call through the reference SDK of Python, in its newest generation: newer.py FILE."""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main(job):
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + job["token"]}) as http:
        async with Client(streamable_http_client(job["url"], http_client=http)) as client:
            tools = (await client.list_tools()).tools
            answers = [await client.call_tool(job[k]["tool"], job[k]["args"]) for k in ("read", "held")]
            print(json.dumps({"client": "mcp " + client.protocol_version, "tools": len(tools),
                              "read": str(answers[0].content), "held": str(answers[1].content)}))


asyncio.run(main(json.load(open(sys.argv[1], encoding="utf-8"))))
