"""One client of the Python SDK's 1.x line: client.py URL TOKEN CAPABILITY...; see ../steps.py."""

import pathlib
import sys

import anyio
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from pysdk import SDKClient


class Client(SDKClient):
    async def names(self):
        names, cursor = [], None
        while True:
            page = await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            names += [tool.name for tool in page.tools]
            cursor = page.nextCursor
            if cursor is None:
                return sorted(names)

    async def error_code(self, tool):
        try:
            await self.session.call_tool(tool, {})
        except McpError as e:
            return e.error.code
        return None

    async def failure_text(self, tool):
        result = await self.session.call_tool(tool, {})
        assert result.isError, result
        return result.content[0].text

    async def cancellable(self, on_progress, started):
        # This line has no cancel of its own: the notification is sent by hand, with the id that the
        # session is about to use.
        async with anyio.create_task_group() as group:
            request_id = self.session._request_id
            group.start_soon(lambda: self.text("cancellable", {}, on_progress=on_progress))
            await started.wait()
            params = types.CancelledNotificationParams(requestId=request_id, reason="not wanted")
            await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
            group.cancel_scope.cancel()

    async def read(self, uri):
        return (await self.session.read_resource(AnyUrl(uri))).contents[0].text

    async def template_list(self):
        return [t.uriTemplate for t in (await self.session.list_resource_templates()).resourceTemplates]

    async def subscribe(self, uri):
        await self.session.subscribe_resource(AnyUrl(uri))


async def main(url, token, capabilities):
    client = Client()
    async with (
        streamablehttp_client(url, headers={"Authorization": f"Bearer {token}"}) as (read, write, _),
        ClientSession(
            read,
            write,
            sampling_callback=client.on_sampling,
            elicitation_callback=client.on_elicitation,
            list_roots_callback=client.on_roots,
            logging_callback=client.on_log,
            message_handler=client.on_message,
        ) as session,
    ):
        client.session = session
        client.version = (await session.initialize()).protocolVersion
        await client.run(capabilities)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3:])
