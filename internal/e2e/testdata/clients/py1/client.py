"""One client of the Python SDK's 1.x line: client.py URL TOKEN CAPABILITY...

Prints one JSON line for each capability: {"capability", "ok", "detail"}; ok is null and detail
"no API" where this SDK has no way to do it. "read=URI" is the step read with an argument.
"""

import json
import os
import sys

import anyio
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

STEP_LIMIT = 30


class Mailbox:
    """Values that a callback puts in and a step waits for."""

    def __init__(self):
        self.send, self.receive = anyio.create_memory_object_stream(100)

    def put(self, value):
        self.send.send_nowait(value)

    async def get(self):
        return await self.receive.receive()


class Client:
    def __init__(self):
        self.logged, self.updated, self.tools_changed = Mailbox(), Mailbox(), Mailbox()
        self.session = None
        self.version = ""

    # What the server may ask of a client.

    async def on_sampling(self, context, params):
        content = types.TextContent(type="text", text="hi from the client")
        return types.CreateMessageResult(role="assistant", model="none", content=content)

    async def on_elicitation(self, context, params):
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def on_roots(self, context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///client", name="client")])

    async def on_log(self, params):
        self.logged.put(params.data)

    async def on_message(self, message):
        root = getattr(message, "root", None)
        if isinstance(root, types.ResourceUpdatedNotification):
            self.updated.put(str(root.params.uri))
        if isinstance(root, types.ToolListChangedNotification):
            self.tools_changed.put(True)

    # The steps, one for each capability.

    async def connect(self):
        return self.version

    async def names(self):
        names, cursor = [], None
        while True:
            page = await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            names += [tool.name for tool in page.tools]
            cursor = page.nextCursor
            if cursor is None:
                return sorted(names)

    async def list(self):
        return json.dumps(await self.names())

    async def text(self, tool, arguments, **options):
        result = await self.session.call_tool(tool, arguments, **options)
        return result.content[0].text

    async def tool(self, name):
        return await self.text(name, {})

    async def call(self):
        text = await self.text("echo", {"text": "≤ hi"})
        assert json.loads(text) == {"text": "≤ hi"}, text
        return text

    async def error(self):
        try:
            await self.session.call_tool("error", {})
            raise AssertionError("tool error gave a result")
        except McpError as e:
            code = e.error.code
        assert code == -32050, code
        result = await self.session.call_tool("fail", {})
        assert result.isError and result.content[0].text == "it did not work", result
        return str(code)

    async def progress(self):
        seen = Mailbox()

        async def step(progress, total, message):
            seen.put(progress)

        await self.text("progress", {"n": 3}, progress_callback=step)
        got = [await seen.get() for _ in range(3)]
        assert got == [1, 2, 3], got
        return "1,2,3"

    async def cancel(self):
        before = len(json.loads(await self.text("cancelled", {"wait": 0})))
        started = anyio.Event()

        async def step(progress, total, message):
            started.set()

        async with anyio.create_task_group() as group:
            # This line has no cancel of its own: the notification is sent by hand, with the id
            # that the session is about to use.
            request_id = self.session._request_id
            group.start_soon(lambda: self.text("cancellable", {}, progress_callback=step))
            await started.wait()
            params = types.CancelledNotificationParams(requestId=request_id, reason="not wanted")
            await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
            group.cancel_scope.cancel()
        after = json.loads(await self.text("cancelled", {"wait": before + 1}))
        return str(len(after) - before)

    async def prompt_names(self):
        return json.dumps(sorted(p.name for p in (await self.session.list_prompts()).prompts))

    async def get(self, name, arguments=None):
        return (await self.session.get_prompt(name, arguments)).messages[0].content.text

    async def prompts(self):
        names = await self.prompt_names()
        assert "greet" in json.loads(names), names
        text = await self.get("greet", {"name": "Ada"})
        assert text == "Greet Ada.", text
        return text

    async def uris(self):
        return json.dumps(sorted(str(r.uri) for r in (await self.session.list_resources()).resources))

    async def read(self, uri):
        return (await self.session.read_resource(AnyUrl(uri))).contents[0].text

    async def resources(self):
        uris = await self.uris()
        assert "fake://text/1" in json.loads(uris), uris
        text = await self.read("fake://text/1")
        assert text == "fake: text/1", text
        return text

    async def template_uris(self):
        listed = await self.session.list_resource_templates()
        return json.dumps(sorted(t.uriTemplate for t in listed.resourceTemplates))

    async def templates(self):
        uris = await self.template_uris()
        assert "fake://item/{id}" in json.loads(uris), uris
        text = await self.read("fake://item/7")
        assert text == "fake: item/7", text
        return text

    async def completion(self):
        ref = types.PromptReference(type="ref/prompt", name="greet")
        got = await self.session.complete(ref, {"name": "name", "value": "al"})
        assert got.completion.values == ["alan", "alice"], got
        return ",".join(got.completion.values)

    async def subscription(self):
        await self.session.subscribe_resource(AnyUrl("fake://text/1"))
        await self.text("touch", {"uri": "fake://text/1"})
        return await self.updated.get()

    async def logging(self):
        await self.session.set_logging_level("info")
        await self.text("log", {})
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
        await self.text("add_tool", {"name": name})
        await self.tools_changed.get()
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


async def main(url, token, capabilities):
    client = Client()
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        streamablehttp_client(url, headers=headers) as (read, write, _),
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
        for capability in capabilities:
            await run_step(client, capability)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3:])
