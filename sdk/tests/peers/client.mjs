// A client written with the official TypeScript SDK: `node client.mjs COMMAND ARGUMENT…` starts server-everything by that
// line (or finds it at a URL: over HTTP+SSE where that ends with /sse, else over streamable HTTP), uses all of the protocol
// that it offers, and prints what it saw, one JSON value a line. Times and random values are left out, so that two runs
// print the same.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [command, ...args] = process.argv.slice(2);
const print = (what, value) => console.log(JSON.stringify({ [what]: value }));
const asked = (what, schema, answer) =>
  client.setRequestHandler(schema, (request) => {
    print(what, request.params ?? null);
    return answer;
  });

const client = new Client(
  { name: "typescript-client", version: "1.0.0" },
  { capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } } },
);
asked("sampling", CreateMessageRequestSchema, {
  role: "assistant",
  model: "none",
  content: { type: "text", text: "An answer.\u2028 Ünïcode \u{1f389}" },
});
asked("elicitation", ElicitRequestSchema, { action: "accept", content: { name: "A", check: true } });
asked("roots", ListRootsRequestSchema, { roots: [{ uri: "file:///somewhere", name: "somewhere" }] });

// What may come at any time is waited for, and printed where it is awaited.
const heard = (schema, matches) =>
  new Promise((resolve) =>
    client.setNotificationHandler(schema, ({ params }) => {
      if (matches(params)) resolve(params);
    }),
  );
const rootsSynced = heard(LoggingMessageNotificationSchema, ({ data }) => `${data}`.startsWith("Roots updated"));

const transport = () => {
  if (!command.startsWith("http")) return new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
  const url = new URL(command);
  return command.endsWith("/sse") ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url);
};
await client.connect(transport());
print("server", [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()]);
print("log", await rootsSynced);
print("tools", await client.listTools());
print("prompts", await client.listPrompts());
print("resources", await client.listResources());
print("templates", await client.listResourceTemplates());
print("prompt", await client.getPrompt({ name: "args-prompt", arguments: { city: "Bern" } }));
print("completion", await client.complete({
  ref: { type: "ref/prompt", name: "completable-prompt" },
  argument: { name: "department", value: "E" },
}));

const call = async (name, args, options) => print(name, await client.callTool({ name, arguments: args }, undefined, options));
await call("echo", { message: "Ünïcode \u{1f389} \u0000 \u2028" });
await call("get-sum", { a: 1, b: 2 });
await call("get-structured-content", { location: "New York" });
await call("get-tiny-image", {});
await call("get-roots-list", {});
await call("trigger-sampling-request", { prompt: "Say something.", maxTokens: 10 });
await call("trigger-elicitation-request", {});
await call("trigger-long-running-operation", { duration: 2, steps: 2 }, {
  // The last one comes in the same moment as the answer, and may not be told then.
  onprogress: (progress) => progress.progress < progress.total && print("progress", progress),
});

// Cancelled once it is under way.
const abort = new AbortController();
await call("trigger-long-running-operation", { duration: 600, steps: 6_000 }, {
  signal: abort.signal,
  onprogress: () => abort.abort("enough"),
}).catch((error) => print("cancelled", error.message));

const uri = "demo://resource/dynamic/text/1";
const updated = heard(ResourceUpdatedNotificationSchema, () => true);
await client.subscribeResource({ uri });
await call("toggle-subscriber-updates", {});
print("updated", await updated);
await call("toggle-subscriber-updates", {});
await client.unsubscribeResource({ uri });
await client.setLoggingLevel("error");
print("ping", await client.ping());
await client.close();
