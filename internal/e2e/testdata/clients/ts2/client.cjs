// One client of the TypeScript SDK's second line: client.cjs URL TOKEN CAPABILITY...; see ../steps.cjs.
'use strict';

const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { answers, heard, main } = require('../steps.cjs');

const MODERN = '2026-07-28';

const client = new Client(
  { name: 'ts2', version: '1' },
  {
    capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} },
    versionNegotiation: { mode: 'auto' },
  },
);
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
for (const [method, hear] of Object.entries(heard)) client.setNotificationHandler(method, hear);

const modern = () => client.getNegotiatedProtocolVersion() >= MODERN;

main(client, StreamableHTTPClientTransport, {
  version: () => client.getNegotiatedProtocolVersion(),
  callTool: (params, options) => client.callTool(params, options),
  names: async () => (await client.listTools()).tools.map((tool) => tool.name).sort(), // all pages
  level: async (level) => {
    if (modern()) return { 'io.modelcontextprotocol/logLevel': level };
    await client.setLoggingLevel(level);
    return undefined;
  },
  watch: async ({ tools, resource }) => {
    if (!modern()) {
      if (resource) await client.subscribeResource({ uri: resource });
      return () => {};
    }
    const stream = await client.listen(tools ? { toolsListChanged: true } : { resourceSubscriptions: [resource] });
    return () => stream.close();
  },
  end: async (transport) => {
    if (!modern()) await transport.terminateSession();
  },
});
