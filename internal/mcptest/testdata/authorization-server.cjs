// An authorization server for tests: oidc-provider with its own pages for sign-in and consent, dynamic
// registration, PKCE, resource indicators and refresh tokens, on loopback. Everything is in memory, so a
// second start knows nothing of the first one. It ends with its standard input.
//
// node authorization-server.cjs '{"port": 0, "lifetime": 3600}'
// Tests ask it under /test: ever (all tokens and codes), record (what was granted), drop, down.
const http = require('node:http');
const { Provider } = require('oidc-provider');

const options = JSON.parse(process.argv[2]);
const models = new Map(); // kind -> id -> payload
const ever = [];          // every token and code
const record = [];        // what was asked for with success
let down = false;

class Adapter {
  constructor(kind) {
    this.kind = kind;
    if (!models.has(kind)) models.set(kind, new Map());
    this.all = models.get(kind);
  }
  async upsert(id, payload) {
    if (/Token$|Code$/.test(this.kind)) ever.push(id);
    this.all.set(id, payload);
  }
  async find(id) { return this.all.get(id); }
  async findByUid(uid) { return [...this.all.values()].find((p) => p.uid === uid); }
  async findByUserCode() { return undefined; }
  async destroy(id) { this.all.delete(id); }
  async consume(id) { this.all.get(id).consumed = Math.floor(Date.now() / 1000); }
  async revokeByGrantId(grantId) {
    for (const all of models.values()) {
      for (const [id, p] of all) if (p.grantId === grantId) all.delete(id);
    }
  }
}

function configuration() {
  return {
    adapter: Adapter,
    clients: [{ client_id: 'resource', client_secret: 'secret-of-the-resource', grant_types: [], redirect_uris: [], response_types: [] },
      ...(options.clients || [])],
    scopes: ['openid', 'offline_access', 'read', 'write'],
    clientAuthMethods: options.methods || ['none', 'client_secret_basic', 'client_secret_post'],
    cookies: { keys: ['for tests'] },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: options.registration !== false },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => ({ scope: 'read write', audience: resource, accessTokenTTL: options.lifetime || 3600, accessTokenFormat: 'opaque' }),
      },
    },
    ttl: { AccessToken: options.lifetime || 3600, AuthorizationCode: 60, RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 3600, IdToken: 3600 },
  };
}

async function test(request, response) {
  let body = '';
  for await (const part of request) body += part;
  const asked = JSON.parse(body || 'null') || {};
  if (asked.drop) for (const kind of asked.drop) models.get(kind)?.clear();
  if ('down' in asked) down = asked.down;
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify({ ever, record }));
}

const server = http.createServer();
server.listen(options.port, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, configuration());
  provider.on('grant.success', (ctx) => record.push({ grant: ctx.oidc.params.grant_type, resource: ctx.oidc.params.resource, client: ctx.oidc.client.clientId }));
  provider.on('registration_create.success', (_ctx, client) => record.push({ grant: 'registration', client: client.clientId }));
  provider.on('server_error', (_ctx, err) => console.error(err));
  const serve = provider.callback();
  server.on('request', (request, response) => {
    if (request.url === '/test') return test(request, response);
    if (down) {
      response.statusCode = 503;
      return response.end('down');
    }
    return serve(request, response);
  });
  console.log(issuer);
});
process.stdin.resume().on('end', () => process.exit(0));
