// One client of the TypeScript SDK's first line: client.cjs URL TOKEN CAPABILITY...; see ../steps.cjs.
'use strict';

const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');
const { answers, heard, main } = require('../steps.cjs');

const client = new Client(
  { name: 'ts1', version: '1' },
  { capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} } },
);
client.setRequestHandler(types.CreateMessageRequestSchema, answers['sampling/createMessage']);
client.setRequestHandler(types.ElicitRequestSchema, answers['elicitation/create']);
client.setRequestHandler(types.ListRootsRequestSchema, answers['roots/list']);
client.setNotificationHandler(types.LoggingMessageNotificationSchema, heard['notifications/message']);
client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, heard['notifications/resources/updated']);
client.setNotificationHandler(types.ToolListChangedNotificationSchema, heard['notifications/tools/list_changed']);

main(client, StreamableHTTPClientTransport, {
  version: () => String(client.transport.protocolVersion),
  callTool: (params, options) => client.callTool(params, undefined, options),
  names: async () => {
    const all = [];
    let cursor;
    do {
      const page = await client.listTools(cursor === undefined ? undefined : { cursor });
      all.push(...page.tools.map((tool) => tool.name));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return all.sort();
  },
  level: async (level) => {
    await client.setLoggingLevel(level);
  },
  watch: async ({ resource }) => {
    if (resource) await client.subscribeResource({ uri: resource });
    return () => {};
  },
  end: (transport) => transport.terminateSession(),
});
