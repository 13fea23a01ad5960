// A server written with the official TypeScript SDK: over stdio, or with `--http` over streamable HTTP on a free
// loopback port, whose URL it prints as its first line.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

function noteServer() {
  const server = new McpServer({ name: "ts-notes", version: "1.0.0" }, { instructions: "Keep notes short." });
  server.registerTool(
    "read_note",
    { description: "Reads one note.", inputSchema: { id: z.string().describe("Which note") }, annotations: { readOnlyHint: true } },
    ({ id }) => ({ content: [{ type: "text", text: id }] }),
  );
  server.registerPrompt("greet", { description: "Greets." }, () => ({ messages: [] }));
  const none = () => ({ contents: [] });
  server.registerResource("first", "note:///1", { description: "The first note" }, none);
  server.registerResource("any", new ResourceTemplate("note:///{id}", { list: undefined }), {}, none);
  return server;
}

if (process.argv[2] === "--http") {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    const known = sessions.get(request.headers["mcp-session-id"]);
    if (known) return known.handleRequest(request, response);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
    });
    await noteServer().connect(transport);
    await transport.handleRequest(request, response);
  });
  http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
} else {
  await noteServer().connect(new StdioServerTransport());
}
