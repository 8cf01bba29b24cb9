// The steps that the clients of both lines of the TypeScript SDK take, one for each capability of the
// table. A client brings the primitives of its line.
//
// Each prints one JSON line: {"capability", "ok", "detail"}; ok is null and detail "no API" where there
// is no such step. "read=URI" is the step read with an argument.
'use strict';

const assert = require('node:assert');
const { exec } = require('node:child_process');
const { promisify } = require('node:util');

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

const mail = { logged: new Mailbox(), updated: new Mailbox(), toolsChanged: new Mailbox() };

/** What the server may ask of a client, by method. */
const answers = {
  'sampling/createMessage': () => ({ role: 'assistant', model: 'none', content: { type: 'text', text: 'hi from the client' } }),
  'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada' } }),
  'roots/list': () => ({ roots: [{ uri: 'file:///client', name: 'client' }] }),
};

/** What the server says, by method. */
const heard = {
  'notifications/message': (n) => mail.logged.put(n.params.data),
  'notifications/resources/updated': (n) => mail.updated.put(n.params.uri),
  'notifications/tools/list_changed': () => mail.toolsChanged.put(true),
};

/**
 * The steps of one client. own has what its line does differently: version(); callTool(params, options);
 * names(); level(name), which gives the _meta to call with; watch({tools, resource}), which gives what ends
 * it; end(transport).
 */
function stepsOf(client, own) {
  const text = async (name, args, options, meta) => {
    const params = { name, arguments: args };
    if (meta) params._meta = meta;
    return (await own.callTool(params, options)).content[0].text;
  };
  const promptNames = async () => (await client.listPrompts()).prompts.map((p) => p.name).sort();
  const getPrompt = async (name, args) => (await client.getPrompt({ name, arguments: args })).messages[0].content.text;
  const uris = async () => (await client.listResources()).resources.map((r) => r.uri).sort();
  const templateURIs = async () => (await client.listResourceTemplates()).resourceTemplates.map((t) => t.uriTemplate).sort();
  const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
  const asked = async (tool, part) => {
    const got = await text(tool, {});
    assert.ok(got.includes(part), got);
    return 'answered';
  };
  return {
    connect: async () => own.version(),
    list: async () => JSON.stringify(await own.names()),
    call: async () => {
      const got = await text('echo', { text: '≤ hi' });
      assert.deepStrictEqual(JSON.parse(got), { text: '≤ hi' });
      return got;
    },
    error: async () => {
      const failure = await own.callTool({ name: 'error', arguments: {} }).then(
        () => assert.fail('tool error gave a result'),
        (e) => e,
      );
      assert.strictEqual(failure.code, -32050, String(failure));
      const result = await own.callTool({ name: 'fail', arguments: {} });
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
      const end = await own.watch({ resource: uri });
      await text('touch', { uri });
      const got = await mail.updated.get();
      await end();
      return got;
    },
    logging: async () => {
      const meta = await own.level('info');
      await text('log', {}, undefined, meta);
      return mail.logged.get();
    },
    sampling: () => asked('ask_sampling', 'hi from the client'),
    elicitation: () => asked('ask_elicitation', 'Ada'),
    roots: () => asked('ask_roots', 'file:///client'),
    list_changed: async () => {
      const name = `added_${process.pid}`;
      const end = await own.watch({ tools: true });
      await text('add_tool', { name });
      await mail.toolsChanged.get();
      await end();
      assert.ok((await own.names()).includes(name), 'the new tool is not listed');
      return 'changed';
    },
    // Runs a command that changes the tools, waits until the gateway tells of it, and lists them.
    told: async (command) => {
      const end = await own.watch({ tools: true });
      await promisify(exec)(command);
      await mail.toolsChanged.get();
      await end();
      return JSON.stringify(await own.names());
    },
    tool: (name) => text(name, {}),
    prompt_names: async () => JSON.stringify(await promptNames()),
    get: (name) => getPrompt(name),
    uris: async () => JSON.stringify(await uris()),
    template_uris: async () => JSON.stringify(await templateURIs()),
    read,
  };
}

function report(capability, ok, detail) {
  console.log(JSON.stringify({ capability, ok, detail }));
}

async function runStep(steps, capability) {
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

/** Runs the program: URL TOKEN CAPABILITY... */
function main(client, Transport, own) {
  const run = async ([url, token, ...capabilities]) => {
    const transport = new Transport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
    await client.connect(transport);
    const steps = stepsOf(client, own);
    for (const capability of capabilities) await runStep(steps, capability);
    await own.end(transport);
    await client.close();
  };
  run(process.argv.slice(2)).then(
    () => process.exit(0),
    (e) => {
      console.error(e);
      process.exit(1);
    },
  );
}

module.exports = { answers, heard, main };
