"""A client written with the official Python SDK: `client.py COMMAND ARGUMENT…` starts server-everything by that line (or
finds it at a URL, over streamable HTTP), uses all of the protocol that it offers, and prints what it saw, one JSON value
a line. Times and random values are left out, so that two runs print the same."""

import json
import os
import sys

import anyio
import mcp_types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


def show(what, value):
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    print(json.dumps({what: value}), flush=True)


async def sampling(_context, params):
    show("sampling", params)
    answer = types.TextContent(type="text", text="An answer.\u2028 Ünïcode \U0001f389")
    return types.CreateMessageResult(role="assistant", model="none", content=answer)


async def elicitation(_context, params):
    show("elicitation", params)
    return types.ElicitResult(action="accept", content={"name": "A", "check": True})


async def roots(_context):
    show("roots", None)
    return types.ListRootsResult(roots=[types.Root(uri="file:///somewhere", name="somewhere")])


async def main():
    synced, updated = anyio.Event(), anyio.Event()

    async def logged(params):
        if str(params.data).startswith("Roots updated"):
            synced.set()

    async def heard(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.set()

    command, *args = sys.argv[1:]
    if command.startswith("http"):
        transport = streamable_http_client(command)
    else:
        transport = stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))
    async with (
        transport as (read, write, *_),
        ClientSession(
            read,
            write,
            sampling_callback=sampling,
            elicitation_callback=elicitation,
            list_roots_callback=roots,
            logging_callback=logged,
            message_handler=heard,
        ) as session,
    ):
        show("server", await session.initialize())
        await synced.wait()
        show("tools", await session.list_tools())
        show("prompts", await session.list_prompts())
        show("resources", await session.list_resources())
        show("templates", await session.list_resource_templates())
        show("prompt", await session.get_prompt("args-prompt", {"city": "Bern"}))

        async def call(name, arguments, **options):
            show(name, await session.call_tool(name, arguments, **options))

        await call("echo", {"message": "Ünïcode \U0001f389 \u0000 \u2028"})
        await call("get-sum", {"a": 1, "b": 2})
        await call("get-structured-content", {"location": "New York"})
        await call("get-roots-list", {})
        await call("trigger-sampling-request", {"prompt": "Say something.", "maxTokens": 10})
        await call("trigger-elicitation-request", {})

        async def progress(done, total, message):
            # The last one comes in the same moment as the answer, and may not be told then.
            if done < total:
                show("progress", [done, total, message])

        operation = "trigger-long-running-operation"
        await call(operation, {"duration": 2, "steps": 2}, progress_callback=progress)

        # Cancelled once it is under way.
        with anyio.CancelScope() as scope:

            async def enough(_done, _total, _message):
                scope.cancel()

            await session.call_tool(operation, {"duration": 600, "steps": 6_000}, progress_callback=enough)
        show("cancelled", scope.cancelled_caught)

        uri = "demo://resource/dynamic/text/1"
        await session.subscribe_resource(uri)
        await call("toggle-subscriber-updates", {})
        await updated.wait()
        show("updated", True)
        await call("toggle-subscriber-updates", {})
        await session.unsubscribe_resource(uri)
        show("ping", await session.send_ping())


anyio.run(main)
