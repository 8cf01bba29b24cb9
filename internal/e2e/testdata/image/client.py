"""Lists and calls tools at a sandbox's gateway: client.py URL TOKEN, in the sandbox's network.

Standard input is a JSON list of [tool, arguments]; "$PAGE" in an argument stands for the address of a
page that this program serves. Prints {"tools": [name, ...], "texts": {tool: text}}; a tool that reports an
error has the text "isError: ...".
"""

import http.server
import json
import sys
import threading

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/page"
        body = b"<html><head><title>A page</title></head><body><p>served inside the sandbox</p></body></html>"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body if found else b"")

    def log_message(self, *args):
        pass


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


with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{server.server_port}/page"
    wanted = json.loads(sys.stdin.read().replace("$PAGE", page))
    anyio.run(main, sys.argv[1], sys.argv[2], wanted)
    server.shutdown()
