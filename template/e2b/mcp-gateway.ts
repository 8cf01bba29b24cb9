// Builds E2B templates whose command "mcp-gateway" is this gateway. Node.js 22.18 or newer runs it as it is:
//
//   make build && export E2B_API_KEY=... && cd template/e2b && npm install
//   node mcp-gateway.ts gateway duckduckgo fetch time arxiv
//   node mcp-gateway.ts servers my-agent github notion
//
// The first of the two builds the template "mcp-gateway" of your team. E2B looks for a name in the team
// before it looks among its own templates, so from then on it is what Sandbox.create({ mcp }) starts, and
// what addMcpServer can be used on. The second builds a template on it with more servers.

import { fileURLToPath } from 'node:url'
import { Template, defaultBuildLogger } from 'e2b'
import type { McpServerName, TemplateBuilder } from 'e2b'

const repository = fileURLToPath(new URL('../..', import.meta.url))
const name = 'mcp-gateway'
const parts = '/opt/mcp-gateway-parts/'

const quote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`

/**
 * Puts the gateway on a Debian or Ubuntu image, by default E2B's, with the servers installed. Without
 * servers it installs all that servers run on, so that any can be added.
 */
export function gateway(servers: string[] = [], baseImage?: string): TemplateBuilder {
  const template = Template({ fileContextPath: repository })
  const builder = baseImage ? template.fromImage(baseImage) : template.fromBaseImage()
  const install = [`${parts}install.sh`, ...servers.map(quote)].join(' ')
  return builder
    .copy('bin/mcp-gateway', parts, { user: 'root', mode: 0o755 })
    .copy('template/install.sh', parts, { user: 'root', mode: 0o755 })
    .runCmd(`${install} && rm -r ${parts}`, { user: 'root' })
}

/** Adds servers to the team's template "mcp-gateway". */
export function withServers(servers: McpServerName[]): TemplateBuilder {
  return Template().fromTemplate(name).addMcpServer(servers)
}

const usage = `usage: node mcp-gateway.ts gateway [SERVER...]
       node mcp-gateway.ts servers NAME SERVER...`

async function main([command, ...args]: string[]): Promise<void> {
  const options = { cpuCount: 2, memoryMB: 2048, onBuildLogs: defaultBuildLogger() }
  if (command === 'gateway') {
    await Template.build(gateway(args), name, options)
  } else if (command === 'servers' && args.length > 1) {
    const [newName, ...servers] = args as [string, ...McpServerName[]]
    await Template.build(withServers(servers), newName, options)
  } else {
    console.error(usage)
    process.exitCode = 2
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main(process.argv.slice(2))
}
