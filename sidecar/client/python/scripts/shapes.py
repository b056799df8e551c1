"""Writes src/hence/_shapes.py from the OpenAPI document, as JSON: python3 scripts/shapes.py openapi.json [--check]"""

from __future__ import annotations

import json
import keyword
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "src" / "hence" / "_shapes.py"
HEAD = '''"""Shapes of the HTTP interface, written from its OpenAPI document by scripts/shapes.py; do not edit them here."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from ._required import NotRequired
'''


def kind(schema: dict) -> str:
    """The Python type of a schema."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "enum" in schema:
        return "Literal[" + ", ".join(json.dumps(v) for v in schema["enum"]) + "]"
    match schema.get("type"):
        case "string":
            return "str"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "array":
            return f"list[{kind(schema.get('items', {}))}]"
        case "object":
            return "dict[str, Any]"
    return "Any"


def shape(name: str, schema: dict) -> str:
    """One shape: a class for an object with properties, else another name for a type."""
    said = " ".join(schema.get("description", "").split())
    if "properties" not in schema:
        lines = [f'{name} = "{kind(schema)}"' if "$ref" in str(schema) else f"{name} = {kind(schema)}"]
        text = "\n".join(lines)
        return text if len(text) <= 118 else text.replace("[", "[\n    ", 1).replace('", "', '",\n    "')
    required = set(schema.get("required", []))
    if any(keyword.iskeyword(field) for field in schema["properties"]):
        return called(name, said, schema["properties"], required)
    lines = [f"class {name}(TypedDict):"]
    if said:
        lines += [f"    # {part}" for part in wrapped(said)]
    for field, inner in schema["properties"].items():
        what = kind(inner)
        line = f"    {field}: " + (what if field in required else f"NotRequired[{what}]")
        if len(line) > 118:
            line = line.replace("Literal[", "Literal[\n        ", 1).replace('", "', '",\n        "')
        lines.append(line)
    return "\n".join(lines)


def called(name: str, said: str, fields: dict, required: set) -> str:
    """A shape with a field whose name is a word of Python's: by a call instead of a class."""
    lines = [f"# {part}" for part in wrapped(said)] if said else []
    lines.append(f'{name} = TypedDict("{name}", {{')
    for field, inner in fields.items():
        what = kind(inner) if field in required else f"NotRequired[{kind(inner)}]"
        line = f'    "{field}": "{what}",' if '"' not in what else f"    \"{field}\": '{what}',"
        if len(line) > 118:
            line = f'    "{field}": "NotRequired[str]",' if field not in required else f'    "{field}": "str",'
        lines.append(line)
    return "\n".join([*lines, "})"])


def wrapped(text: str, width: int = 112) -> list[str]:
    """The text in lines."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) + 1 > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


def render(document: dict) -> str:
    """The whole file."""
    schemas = document["components"]["schemas"]
    names = sorted(schemas, key=lambda n: ("properties" in schemas[n], n))
    return HEAD + "".join(f"\n\n{shape(n, schemas[n])}\n" for n in names)


def main() -> int:
    """Writes the file, or with --check says whether it is in step."""
    if len(sys.argv) < 2:
        print("usage: shapes.py openapi.json [--check]", file=sys.stderr)
        return 2
    text = render(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if "--check" in sys.argv:
        if OUT.exists() and OUT.read_text(encoding="utf-8") == text:
            return 0
        print("_shapes.py is out of step with the OpenAPI document: run scripts/shapes.py openapi.json", file=sys.stderr)
        return 1
    OUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
