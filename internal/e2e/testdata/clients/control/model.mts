// The model's own pattern over plain HTTP: read the gateway, wait until it is ready or has failed, take its
// URL, add a server, sign in to it, and poll until somebody has done so. It prints an object for each step.
// Arguments: base URL, token, sandbox id, key of the server to add, its registration as JSON or "".

type Failure = { code: string; message?: string; details?: object[] };
type Gateway = { name: string; state: 'provisioning' | 'ready' | 'failed'; url?: string; servers: { name: string }[]; failure?: Failure };
type Authorization = { uid?: string; status: 'pending' | 'authorized' | 'failed'; authorizationUrl?: string; etag: string; failure?: Failure };

class RequestError extends Error {
  constructor(raw: Failure) {
    super(`${raw.code}: ${raw.message}`);
  }
}

const [base, token, sandbox, server, registration] = process.argv.slice(2);
const name = `sandboxes/${sandbox}/mcp-gateway`;
const signIn = `mcp-servers/${encodeURIComponent(server)}/authorization`;

async function request<T>(method: string, path: string, body?: object, headers: object = {}): Promise<{ status: number; body: T }> {
  const response = await fetch(`${base}/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    body: body && JSON.stringify(body),
  });
  const text = await response.text();
  if (response.status >= 400) throw new RequestError(JSON.parse(text));
  return { status: response.status, body: text ? JSON.parse(text) : undefined };
}

async function poll<T>(read: () => Promise<T>, done: (seen: T) => boolean, timeoutMs: number): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const seen = await read();
    if (done(seen)) return seen;
    if (Date.now() > deadline) throw new Error('the wait has expired');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const say = (step: object) => console.log(JSON.stringify(step));
const read = async () => (await request<Gateway>('GET', name)).body;
say({ read: await read() });
const gateway = await poll(read, (seen) => seen.state !== 'provisioning', 60_000);
if (gateway.state === 'failed') throw new RequestError(gateway.failure ?? { code: 'unknown' });
if (!gateway.url) throw new Error('the gateway is ready without a URL');
say({ ready: gateway });

const add = registration ? { server, registration: JSON.parse(registration) } : { server };
say({ added: (await request<{ server: object }>('POST', `${name}/servers`, add)).body.server });
const begun = await request<Authorization>('POST', `${signIn}/authorize`, { forceReauth: false });
say({ begun: begun.body, status: begun.status });
let latest = begun.body;
await poll(async () => {
  const answer = await request<Authorization>('GET', signIn, undefined, { 'if-none-match': latest.etag });
  if (answer.status === 200) latest = answer.body;
  if (latest.uid !== begun.body.uid) throw new Error('another sign-in has begun');
}, () => latest.status !== 'pending', 60_000);
if (latest.status !== 'authorized') throw new RequestError(latest.failure ?? { code: 'unknown' });
say({ ended: latest });
