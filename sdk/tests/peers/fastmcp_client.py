"""A client written with fastmcp: `fastmcp_client.py COMMAND ARGUMENT…` starts server-everything by that line and prints what
it saw, one value a line; two runs print the same."""

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


def show(what, value):
    print(what, repr(value), flush=True)


async def sampling(messages, params, _context):
    show("sampling", (messages, params))
    return "An answer."


async def main():
    command, *args = sys.argv[1:]
    server = StdioTransport(command=command, args=args, env=dict(os.environ), keep_alive=False)
    async with Client(server, roots=["file:///somewhere"], sampling_handler=sampling) as client:
        show("server", client.initialize_result)
        show("tools", await client.list_tools())
        show("prompts", await client.list_prompts())
        show("resources", await client.list_resources())
        show("templates", await client.list_resource_templates())
        show("echo", (await client.call_tool("echo", {"message": "Ünïcode \U0001f389"})).content)
        show("sum", (await client.call_tool("get-sum", {"a": 1, "b": 2})).content)
        sampled = await client.call_tool("trigger-sampling-request", {"prompt": "Say something.", "maxTokens": 10})
        show("sampled", sampled.content)
        show("resource", await client.read_resource("demo://resource/static/document/features.md"))
        show("ping", await client.ping())


asyncio.run(main())
