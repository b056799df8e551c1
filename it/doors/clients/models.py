"""Whole and streamed answers through the SDKs of three providers, as they are: models.py FILE."""

import json
import sys

import anthropic
import openai
from google import genai

job = json.load(open(sys.argv[1], encoding="utf-8"))
KEY = "sk-of-the-provider-4711"
ASK = "what of order 7?"
TOOL = {"type": "object", "properties": {"at": {"type": "string"}}}


def say(client, what):
    print(json.dumps({"client": client, "said": what}, sort_keys=True))


def chat(client):
    ask = {"model": "m", "messages": [{"role": "user", "content": ASK}]}
    whole = client.chat.completions.create(**ask).choices[0].message
    say("openai chat", [whole.content, [[c.function.name, c.function.arguments] for c in whole.tool_calls or []]])
    text, args = "", ""
    for chunk in client.chat.completions.create(stream=True, **ask):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        args += "".join(c.function.arguments or "" for c in delta.tool_calls or [])
    say("openai chat, streamed", [text, args])


def responses(client):
    say("openai responses", client.responses.create(model="m", input=ASK).output_text)
    with client.responses.stream(model="m", input=ASK) as events:
        say("openai responses, streamed", [e.delta for e in events if e.type == "response.output_text.delta"])


def messages(client):
    ask = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": ASK}]}
    say("anthropic", [b.model_dump(mode="json", exclude_none=True) for b in client.messages.create(**ask).content])
    with client.messages.stream(**ask) as stream:
        say("anthropic, streamed", [b.model_dump(mode="json", exclude_none=True)
                                    for b in stream.get_final_message().content])


def gemini(client):
    say("gemini", client.models.generate_content(model="m", contents=ASK).text)
    say("gemini, streamed", [c.text for c in client.models.generate_content_stream(model="m", contents=ASK)])


chat(openai.OpenAI(api_key=KEY, base_url=job["openai"], max_retries=0))
responses(openai.OpenAI(api_key=KEY, base_url=job["openai"], max_retries=0))
messages(anthropic.Anthropic(api_key=KEY, base_url=job["anthropic"], max_retries=0))
gemini(genai.Client(api_key=KEY, http_options={"base_url": job["gemini"]}))
