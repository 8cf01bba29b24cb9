// Two sessions of the TypeScript SDK's first line that have a tool of each server run as a task at once:
// client.cjs URL TOKEN TOOL...; prints a line for each task.
'use strict';

const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { ElicitRequestSchema } = require('@modelcontextprotocol/sdk/types.js');

const [url, token, ...tools] = process.argv.slice(2);

async function connect(who) {
  const client = new Client({ name: who, version: '1' }, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    if (!params.message.includes(`topic of ${who} `)) throw new Error(`${who} was asked: ${params.message}`);
    return { action: 'accept', content: { interpretation: `as ${who} says` } };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
  await client.listTools();
  return client;
}

async function run(client, who, tool) {
  const stream = client.experimental.tasks.callToolStream({ name: tool, arguments: { topic: `topic of ${who} at ${tool}`, ambiguous: true } });
  let id;
  for await (const message of stream) {
    if (message.type === 'taskCreated') id = message.task.taskId;
    if (message.type === 'error') throw message.error;
    if (message.type === 'result') return { who, tool, id, text: message.result.content[0].text };
  }
  throw new Error('no result');
}

async function main() {
  const parties = [];
  for (const who of ['one', 'two']) parties.push({ who, client: await connect(who) });
  const done = await Promise.all(parties.flatMap(({ who, client }) => tools.map((tool) => run(client, who, tool))));
  for (const task of done) {
    const states = [];
    for (const { who, client } of parties) {
      const { tasks } = await client.experimental.tasks.listTasks();
      const got = await client.experimental.tasks.getTask(task.id).then((state) => state.status, (error) => error.code);
      states.push({ who, listed: tasks.some(({ taskId }) => taskId === task.id), got });
    }
    console.log(JSON.stringify({ ...task, states }));
  }
  for (const { client } of parties) await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
