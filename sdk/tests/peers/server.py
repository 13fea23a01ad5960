"""A server written with the official Python SDK: over stdio, or with `--http` over streamable HTTP on a free loopback
port, whose URL it prints as its first line. It speaks both eras of the protocol."""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer(name="py-notes", version="1.0.0", instructions="Keep notes short.")


@server.tool()
def read_note(id: str) -> str:
    """Reads one note."""
    return id


@server.prompt()
def greet() -> str:
    """Greets."""
    return "Hello"


@server.resource("note:///1", name="first")
def first() -> str:
    """The first note"""
    return ""


@server.resource("note:///{id}", name="any")
def any_note(id: str) -> str:
    """Any note"""
    return id


if sys.argv[1:] == ["--http"]:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
else:
    server.run("stdio")
