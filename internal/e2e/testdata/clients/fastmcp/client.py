"""fastmcp's client: client.py URL TOKEN MODE CAPABILITY...

MODE is "auto" for the newest revision that both sides speak or "legacy" for those with sessions.
Prints one JSON line for each capability: {"capability", "ok", "detail"}; ok is null and detail
"no API" where this client has no way to do it. "read=URI" is the step read with an argument.
"""

import json
import os
import sys

import anyio
from fastmcp import Client as FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError, types
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged, listen

MODERN = "2026-07-28"
STEP_LIMIT = 30


class Mailbox:
    """Values that a callback puts in and a step waits for."""

    def __init__(self):
        self.send, self.receive = anyio.create_memory_object_stream(100)

    def put(self, value):
        self.send.send_nowait(value)

    async def get(self):
        return await self.receive.receive()


class Messages(MessageHandler):
    """The notifications that steps wait for."""

    def __init__(self):
        self.updated, self.tools_changed = Mailbox(), Mailbox()

    async def on_resource_updated(self, message):
        self.updated.put(str(message.params.uri))

    async def on_tool_list_changed(self, message):
        self.tools_changed.put(True)


class Client:
    def __init__(self, url, token, mode):
        self.logged, self.messages = Mailbox(), Messages()
        self.client = FastMCP(
            StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"}),
            mode=mode,
            roots=["file:///client"],
            sampling_handler=self.on_sampling,
            elicitation_handler=self.on_elicitation,
            log_handler=self.on_log,
            message_handler=self.messages,
        )

    # What the server may ask of a client.

    async def on_sampling(self, messages, params, context):
        return "hi from the client"

    async def on_elicitation(self, message, response_type, params, context):
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def on_log(self, message):
        self.logged.put(message.data)

    # The steps, one for each capability.

    @property
    def modern(self):
        return self.client.protocol_version >= MODERN

    async def connect(self):
        return self.client.protocol_version

    async def names(self):
        return sorted(tool.name for tool in await self.client.list_tools())

    async def list(self):
        return json.dumps(await self.names())

    async def text(self, tool, arguments, **options):
        result = await self.client.call_tool(tool, arguments, **options)
        return result.content[0].text

    async def tool(self, name):
        return await self.text(name, {})

    async def call(self):
        text = await self.text("echo", {"text": "≤ hi"})
        assert json.loads(text) == {"text": "≤ hi"}, text
        return text

    async def error(self):
        try:
            await self.client.call_tool("error", {})
            raise AssertionError("tool error gave a result")
        except MCPError as e:
            code = e.error.code
        assert code == -32050, code
        try:
            await self.client.call_tool("fail", {})
            raise AssertionError("tool fail gave a result")
        except ToolError as e:
            assert str(e) == "it did not work", e
        return str(code)

    async def progress(self):
        seen = Mailbox()

        async def step(progress, total, message):
            seen.put(progress)

        await self.text("progress", {"n": 3}, progress_handler=step)
        got = [await seen.get() for _ in range(3)]
        assert got == [1, 2, 3], got
        return "1,2,3"

    async def cancel(self):
        before = len(json.loads(await self.text("cancelled", {"wait": 0})))
        started = anyio.Event()

        async def step(progress, total, message):
            started.set()

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.text("cancellable", {}, progress_handler=step))
            await started.wait()
            group.cancel_scope.cancel()
        after = json.loads(await self.text("cancelled", {"wait": before + 1}))
        return str(len(after) - before)

    async def prompt_names(self):
        return json.dumps(sorted(p.name for p in await self.client.list_prompts()))

    async def get(self, name, arguments=None):
        return (await self.client.get_prompt(name, arguments)).messages[0].content.text

    async def prompts(self):
        names = await self.prompt_names()
        assert "greet" in json.loads(names), names
        text = await self.get("greet", {"name": "Ada"})
        assert text == "Greet Ada.", text
        return text

    async def uris(self):
        return json.dumps(sorted(str(r.uri) for r in await self.client.list_resources()))

    async def read(self, uri):
        return (await self.client.read_resource(uri))[0].text

    async def resources(self):
        uris = await self.uris()
        assert "fake://text/1" in json.loads(uris), uris
        text = await self.read("fake://text/1")
        assert text == "fake: text/1", text
        return text

    async def template_uris(self):
        return json.dumps(sorted(t.uri_template for t in await self.client.list_resource_templates()))

    async def templates(self):
        uris = await self.template_uris()
        assert "fake://item/{id}" in json.loads(uris), uris
        text = await self.read("fake://item/7")
        assert text == "fake: item/7", text
        return text

    async def completion(self):
        ref = types.PromptReference(type="ref/prompt", name="greet")
        got = await self.client.complete(ref, {"name": "name", "value": "al"})
        assert got.values == ["alan", "alice"], got
        return ",".join(got.values)

    # fastmcp has handlers for what arrives, and leaves it to its session to ask for it.

    async def subscription(self):
        uri = "fake://text/1"
        if not self.modern:
            await self.client.session.subscribe_resource(uri)
            await self.text("touch", {"uri": uri})
            return await self.messages.updated.get()
        async with listen(self.client.session, resource_subscriptions=[uri]) as events:
            await self.text("touch", {"uri": uri})
            async for event in events:
                assert event == ResourceUpdated(uri=uri), event
                return event.uri

    async def logging(self):
        meta = {"io.modelcontextprotocol/logLevel": "info"} if self.modern else None
        if not self.modern:
            await self.client.set_logging_level("info")
        await self.text("log", {}, meta=meta)
        return await self.logged.get()

    async def asked(self, tool, part):
        text = await self.text(tool, {})
        assert part in text, text
        return "answered"

    async def sampling(self):
        return await self.asked("ask_sampling", "hi from the client")

    async def elicitation(self):
        return await self.asked("ask_elicitation", "Ada")

    async def roots(self):
        return await self.asked("ask_roots", "file:///client")

    async def list_changed(self):
        name = f"added_{os.getpid()}"
        if self.modern:
            async with listen(self.client.session, tools_list_changed=True) as events:
                await self.text("add_tool", {"name": name})
                async for event in events:
                    assert event == ToolsListChanged(), event
                    break
        else:
            await self.text("add_tool", {"name": name})
            await self.messages.tools_changed.get()
        names = await self.names()
        assert name in names, names
        return "changed"


def report(capability, ok, detail):
    print(json.dumps({"capability": capability, "ok": ok, "detail": detail}, ensure_ascii=False), flush=True)


async def run_step(client, capability):
    name, _, argument = capability.partition("=")
    step = getattr(client, name, None)
    if step is None:
        report(capability, None, "no API")
        return
    try:
        with anyio.fail_after(STEP_LIMIT):
            report(capability, True, await (step(argument) if argument else step()))
    except Exception as e:
        report(capability, False, f"{type(e).__name__}: {e}")


async def main(url, token, mode, capabilities):
    client = Client(url, token, mode)
    async with client.client:
        for capability in capabilities:
            await run_step(client, capability)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
