"""Lists and calls tools at a sandbox's gateway: client.py URL TOKEN, in the sandbox's network.

Standard input is a JSON list of [tool, arguments]. Prints {"tools": [name, ...], "texts": {tool: text}}; the
text of a tool that reports an error begins with "isError: ".
"""

import json
import sys

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main(url, token, calls):
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        streamablehttp_client(url, headers=headers) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        texts = {}
        for tool, arguments in calls:
            result = await session.call_tool(tool, arguments)
            text = "\n".join(part.text for part in result.content if part.type == "text")
            texts[tool] = f"isError: {text}" if result.isError else text
        print(json.dumps({"tools": tools, "texts": texts}))


anyio.run(main, sys.argv[1], sys.argv[2], json.load(sys.stdin))
