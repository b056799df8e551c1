"""An MCP server without dependencies, for docs/mcp.md: notes in a file, and messages that cannot be taken back."""

import json
import sys

FILE = "notes.txt"
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "list_notes", "description": "All notes.", "inputSchema": {"type": "object"},
     "annotations": {"readOnlyHint": True}},
    {"name": "send_note", "description": "Send a note to everybody.", "inputSchema": TEXT},
]


def call(name, args):
    if name == "list_notes":
        try:
            return open(FILE, encoding="utf-8").read() or "no notes"
        except FileNotFoundError:
            return "no notes"
    with open(FILE, "a", encoding="utf-8") as notes:
        notes.write(args["text"] + "\n")
    return "sent: " + args["text"]


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text = call(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
