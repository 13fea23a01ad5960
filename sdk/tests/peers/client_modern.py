"""A client written with the official Python SDK that speaks 2026-07-28 where the server does: `client_modern.py COMMAND
ARGUMENT…` prints what it saw, one value a line."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters


async def main():
    command, *args = sys.argv[1:]
    server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    async with Client(server) as client:
        print("protocol", client.protocol_version)
        print("server", repr(client.server_info), repr(client.instructions))
        print("tools", repr(await client.list_tools()))
        print("prompts", repr(await client.list_prompts()))
        print("resources", repr(await client.list_resources()))
        print("call", repr(await client.call_tool("read_note", {"id": "Ünïcode \U0001f389"})))


asyncio.run(main())
