// One client of the TypeScript SDK's second line: client.cjs URL TOKEN CAPABILITY...
//
// Prints one JSON line for each capability: {"capability", "ok", "detail"}; ok is null and detail
// "no API" where this SDK has no way to do it. "read=URI" is the step read with an argument.
'use strict';

const assert = require('node:assert');
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

const MODERN = '2026-07-28';
const STEP_LIMIT = 30_000;

/** Values that a handler puts in and a step waits for. */
class Mailbox {
  values = [];
  waiting = [];
  put(value) {
    const next = this.waiting.shift();
    if (next) next(value);
    else this.values.push(value);
  }
  get() {
    if (this.values.length > 0) return Promise.resolve(this.values.shift());
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

const logged = new Mailbox();
const updated = new Mailbox();
const toolsChanged = new Mailbox();

const client = new Client(
  { name: 'ts2', version: '1' },
  {
    capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} },
    versionNegotiation: { mode: 'auto' },
  },
);

client.setRequestHandler('sampling/createMessage', () => ({
  role: 'assistant',
  model: 'none',
  content: { type: 'text', text: 'hi from the client' },
}));
client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada' } }));
client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///client', name: 'client' }] }));
client.setNotificationHandler('notifications/message', (n) => logged.put(n.params.data));
client.setNotificationHandler('notifications/resources/updated', (n) => updated.put(n.params.uri));
client.setNotificationHandler('notifications/tools/list_changed', () => toolsChanged.put(true));

const modern = () => client.getNegotiatedProtocolVersion() >= MODERN;

async function text(name, args, options, meta) {
  const params = { name, arguments: args };
  if (meta) params._meta = meta;
  const result = await client.callTool(params, options);
  return result.content[0].text;
}

async function names() {
  const listed = await client.listTools(); // all pages
  return listed.tools.map((tool) => tool.name).sort();
}

async function promptNames() {
  return (await client.listPrompts()).prompts.map((p) => p.name).sort();
}

async function getPrompt(name, args) {
  return (await client.getPrompt({ name, arguments: args })).messages[0].content.text;
}

async function uris() {
  return (await client.listResources()).resources.map((r) => r.uri).sort();
}

async function templateURIs() {
  return (await client.listResourceTemplates()).resourceTemplates.map((t) => t.uriTemplate).sort();
}

async function read(uri) {
  return (await client.readResource({ uri })).contents[0].text;
}

async function asked(tool, part) {
  const got = await text(tool, {});
  assert.ok(got.includes(part), got);
  return 'answered';
}

const steps = {
  connect: async () => client.getNegotiatedProtocolVersion(),
  list: async () => JSON.stringify(await names()),
  call: async () => {
    const got = await text('echo', { text: '≤ hi' });
    assert.deepStrictEqual(JSON.parse(got), { text: '≤ hi' });
    return got;
  },
  error: async () => {
    const failure = await client.callTool({ name: 'error', arguments: {} }).then(
      () => assert.fail('tool error gave a result'),
      (e) => e,
    );
    assert.strictEqual(failure.code, -32050, String(failure));
    const result = await client.callTool({ name: 'fail', arguments: {} });
    assert.ok(result.isError && result.content[0].text === 'it did not work', JSON.stringify(result));
    return String(failure.code);
  },
  progress: async () => {
    const seen = [];
    await text('progress', { n: 3 }, { onprogress: (p) => seen.push(p.progress) });
    assert.deepStrictEqual(seen, [1, 2, 3]);
    return seen.join(',');
  },
  cancel: async () => {
    const before = JSON.parse(await text('cancelled', { wait: 0 })).length;
    const stop = new AbortController();
    await assert.rejects(text('cancellable', {}, { signal: stop.signal, onprogress: () => stop.abort('not wanted') }));
    const after = JSON.parse(await text('cancelled', { wait: before + 1 })).length;
    return String(after - before);
  },
  prompts: async () => {
    assert.ok((await promptNames()).includes('greet'));
    const got = await getPrompt('greet', { name: 'Ada' });
    assert.strictEqual(got, 'Greet Ada.');
    return got;
  },
  resources: async () => {
    assert.ok((await uris()).includes('fake://text/1'));
    const got = await read('fake://text/1');
    assert.strictEqual(got, 'fake: text/1');
    return got;
  },
  templates: async () => {
    assert.ok((await templateURIs()).includes('fake://item/{id}'));
    const got = await read('fake://item/7');
    assert.strictEqual(got, 'fake: item/7');
    return got;
  },
  completion: async () => {
    const got = await client.complete({
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'name', value: 'al' },
    });
    assert.deepStrictEqual(got.completion.values, ['alan', 'alice']);
    return got.completion.values.join(',');
  },
  subscription: async () => {
    const uri = 'fake://text/1';
    const stream = modern() ? await client.listen({ resourceSubscriptions: [uri] }) : await client.subscribeResource({ uri });
    await text('touch', { uri });
    const got = await updated.get();
    if (modern()) await stream.close();
    return got;
  },
  logging: async () => {
    if (!modern()) await client.setLoggingLevel('info');
    await text('log', {}, undefined, modern() ? { 'io.modelcontextprotocol/logLevel': 'info' } : undefined);
    return logged.get();
  },
  sampling: () => asked('ask_sampling', 'hi from the client'),
  elicitation: () => asked('ask_elicitation', 'Ada'),
  roots: () => asked('ask_roots', 'file:///client'),
  list_changed: async () => {
    const name = `added_${process.pid}`;
    const stream = modern() ? await client.listen({ toolsListChanged: true }) : undefined;
    await text('add_tool', { name });
    await toolsChanged.get();
    await stream?.close();
    assert.ok((await names()).includes(name), 'the new tool is not listed');
    return 'changed';
  },
  tool: (name) => text(name, {}),
  prompt_names: async () => JSON.stringify(await promptNames()),
  get: (name) => getPrompt(name),
  uris: async () => JSON.stringify(await uris()),
  template_uris: async () => JSON.stringify(await templateURIs()),
  read,
};

function report(capability, ok, detail) {
  console.log(JSON.stringify({ capability, ok, detail }));
}

async function runStep(capability) {
  const [, name, argument] = /^([^=]*)=?(.*)$/.exec(capability);
  const step = steps[name];
  if (!step) {
    report(capability, null, 'no API');
    return;
  }
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing within ${STEP_LIMIT} ms`)), STEP_LIMIT);
  });
  try {
    report(capability, true, await Promise.race([step(argument), limit]));
  } catch (e) {
    report(capability, false, String(e));
  } finally {
    clearTimeout(timer);
  }
}

async function main([url, token, ...capabilities]) {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
  });
  await client.connect(transport);
  for (const capability of capabilities) await runStep(capability);
  if (!modern()) await transport.terminateSession();
  await client.close();
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (e) => {
    console.error(e);
    process.exit(1);
  },
);
