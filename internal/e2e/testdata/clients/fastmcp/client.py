"""fastmcp's client: client.py URL TOKEN MODE CAPABILITY...; see ../steps.py.

MODE is "auto" for the newest revision that both sides speak or "legacy" for those with sessions.
"""

import pathlib
import sys

import anyio
import fastmcp
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError, types
from mcp.client.subscriptions import listen

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from steps import Steps


class Messages(MessageHandler):
    """The notifications that steps wait for."""

    def __init__(self, client):
        self.client = client

    async def on_resource_updated(self, message):
        self.client.updated.put(str(message.params.uri))

    async def on_tool_list_changed(self, message):
        self.client.tools_changed.put(True)


class Client(Steps):
    def __init__(self, url, token, mode):
        super().__init__()
        self.client = fastmcp.Client(
            StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"}),
            mode=mode,
            roots=["file:///client"],
            sampling_handler=self.on_sampling,
            elicitation_handler=self.on_elicitation,
            log_handler=self.on_log,
            message_handler=Messages(self),
        )

    # What the server may ask of a client, and say to it.

    async def on_sampling(self, messages, params, context):
        return "hi from the client"

    async def on_elicitation(self, message, response_type, params, context):
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def on_log(self, message):
        self.logged.put(message.data)

    # Primitives. fastmcp has handlers for what arrives, and leaves it to its session to ask for it.

    async def names(self):
        return sorted(tool.name for tool in await self.client.list_tools())

    async def text(self, tool, arguments, on_progress=None, meta=None):
        result = await self.client.call_tool(tool, arguments, progress_handler=on_progress, meta=meta)
        return result.content[0].text

    async def error_code(self, tool):
        try:
            await self.client.call_tool(tool, {})
        except MCPError as e:
            return e.error.code
        return None

    async def failure_text(self, tool):
        try:
            await self.client.call_tool(tool, {})
        except ToolError as e:
            return str(e)
        return None

    async def prompt_list(self):
        return [p.name for p in await self.client.list_prompts()]

    async def get(self, name, arguments=None):
        return (await self.client.get_prompt(name, arguments)).messages[0].content.text

    async def resource_list(self):
        return [str(r.uri) for r in await self.client.list_resources()]

    async def read(self, uri):
        return (await self.client.read_resource(uri))[0].text

    async def template_list(self):
        return [t.uri_template for t in await self.client.list_resource_templates()]

    async def completions(self, prompt, name, value):
        ref = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self.client.complete(ref, {"name": name, "value": value})).values

    async def set_level(self, level):
        await self.client.set_logging_level(level)

    async def subscribe(self, uri):
        await self.client.session.subscribe_resource(uri)

    def listen(self, **wanted):
        return listen(self.client.session, **wanted)


async def main(url, token, mode, capabilities):
    client = Client(url, token, mode)
    async with client.client:
        client.version = client.client.protocol_version
        await client.run(capabilities)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
