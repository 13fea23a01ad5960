"""An agent's program written with the official Python SDK: `index_client.py URL CALLS MODE [KEY]` asks an index over
streamable HTTP, with the key in a header where there is one. CALLS is a JSON list of `[tool, arguments]`; MODE is `legacy`
(with `initialize`) or `auto` (2026-07-28 where the server speaks it). It prints the protocol's version, what the server says
of itself, its tools and each answer, one JSON value a line."""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def show(what, value):
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    print(json.dumps({what: value}), flush=True)


async def main():
    url, calls, mode, *key = sys.argv[1:]
    headers = {"Authorization": f"Bearer {key[0]}"} if key else {}
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            show("protocol", client.protocol_version)
            show("server", client.server_info)
            show("tools", await client.list_tools())
            for name, arguments in json.loads(calls):
                show(name, await client.call_tool(name, arguments))


asyncio.run(main())
