"""One client of the Python SDK's 2.x line: client.py URL TOKEN CAPABILITY...; see ../steps.py."""

import pathlib
import sys

import anyio
import mcp
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from pysdk import SDKClient


class Client(SDKClient):
    async def names(self):
        names, cursor = [], None
        while True:
            page = await self.session.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return sorted(names)

    async def error_code(self, tool):
        try:
            await self.session.call_tool(tool, {})
        except mcp.MCPError as e:
            return e.error.code
        return None

    async def failure_text(self, tool):
        result = await self.session.call_tool(tool, {})
        assert result.is_error, result
        return result.content[0].text

    async def read(self, uri):
        return (await self.session.read_resource(uri)).contents[0].text

    async def template_list(self):
        return [t.uri_template for t in (await self.session.list_resource_templates()).resource_templates]

    async def subscribe(self, uri):
        await self.session.subscribe_resource(uri)

    def listen(self, **wanted):
        return self.session.listen(**wanted)


async def main(url, token, capabilities):
    client = Client()
    http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    async with (
        http,
        mcp.Client(
            streamable_http_client(url, http_client=http),
            sampling_callback=client.on_sampling,
            elicitation_callback=client.on_elicitation,
            list_roots_callback=client.on_roots,
            logging_callback=client.on_log,
            log_level="info",
            message_handler=client.on_message,
        ) as session,
    ):
        client.session = session
        client.version = session.protocol_version
        await client.run(capabilities)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3:])
