// A protected MCP server for tests, made with the TypeScript SDK. It takes the tokens of an authorization
// server that are for it; its tool "write" needs a scope of its own. It ends with its standard input.
//
// node protected-server.cjs ISSUER
const express = require('express');
const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js');
const { requireBearerAuth } = require('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js');
const { mcpAuthMetadataRouter, getOAuthProtectedResourceMetadataUrl } = require('@modelcontextprotocol/sdk/server/auth/router.js');
const { InvalidTokenError } = require('@modelcontextprotocol/sdk/server/auth/errors.js');

const issuer = process.argv[2];
const app = express();
app.use(express.json());

const listener = app.listen(0, '127.0.0.1', async () => {
  const resource = new URL(`http://127.0.0.1:${listener.address().port}/mcp`);
  const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
  const verifier = {
    async verifyAccessToken(token) {
      const answer = await (await fetch(metadata.introspection_endpoint, {
        method: 'POST',
        headers: { Authorization: `Basic ${btoa('resource:secret-of-the-resource')}`, 'Content-Type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ token }),
      })).json();
      if (!answer.active || answer.aud !== resource.href) throw new InvalidTokenError('the token is not active, or not for this server');
      return { token, clientId: answer.client_id, scopes: (answer.scope || '').split(' '), expiresAt: answer.exp };
    },
  };
  const guard = (scopes) => requireBearerAuth({ verifier, requiredScopes: scopes, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource) });
  app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: resource, scopesSupported: ['read'] }));
  app.all('/mcp', (request, response, next) => {
    const writes = request.body?.method === 'tools/call' && request.body.params.name === 'write';
    guard(writes ? ['read', 'write'] : ['read'])(request, response, next);
  }, async (request, response) => {
    const server = new McpServer({ name: 'protected', version: '1' });
    for (const name of ['read', 'write']) {
      server.registerTool(name, { description: name }, async () => ({ content: [{ type: 'text', text: `${name} done` }] }));
    }
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on('close', () => server.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  console.log(resource.href);
});
process.stdin.resume().on('end', () => process.exit(0));
