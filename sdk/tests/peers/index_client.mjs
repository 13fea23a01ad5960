// An agent's program written with the official TypeScript SDK: `node index_client.mjs URL CALLS [KEY]` asks an index over
// streamable HTTP, with the key in a header where there is one. CALLS is a JSON list of `[tool, arguments]`. It prints what
// the server says of itself, its tools and each answer, one JSON value a line. The SDK checks each answer against the tool's
// output schema.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, calls, key] = process.argv.slice(2);
const print = (what, value) => console.log(JSON.stringify({ [what]: value }));

const headers = key ? { Authorization: `Bearer ${key}` } : {};
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
const client = new Client({ name: "typescript-agent", version: "1.0.0" });
try {
  await client.connect(transport);
} catch (error) {
  print("refused", `${error.code ?? error.name}`);
  process.exit(3);
}
print("server", [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()]);
print("tools", (await client.listTools()).tools);
for (const [name, args] of JSON.parse(calls)) print(name, await client.callTool({ name, arguments: args }));
await client.close();
