"""The steps that every Python client takes, one for each capability of the table.

A client brings the primitives of its SDK and inherits the steps. Each prints one JSON line:
{"capability", "ok", "detail"}; ok is null and detail "no API" where there is no such step.
"read=URI" is the step read with an argument.
"""

import json
import os

import anyio

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


class Steps:
    version = ""  # of the protocol, once the client is connected

    def __init__(self):
        self.logged, self.updated, self.tools_changed = Mailbox(), Mailbox(), Mailbox()

    @property
    def modern(self):
        return self.version >= MODERN

    # Primitives of each SDK: names, text(tool, arguments, on_progress, meta), error_code, failure_text,
    # prompt_list, get, resource_list, read, template_list, completions, set_level, subscribe, listen.

    async def cancellable(self, on_progress, started):
        """Begins a call, and cancels it once it has started."""
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.text("cancellable", {}, on_progress=on_progress))
            await started.wait()
            group.cancel_scope.cancel()

    # The steps.

    async def connect(self):
        return self.version

    async def list(self):
        return json.dumps(await self.names())

    async def tool(self, name):
        return await self.text(name, {})

    async def call(self):
        text = await self.text("echo", {"text": "≤ hi"})
        assert json.loads(text) == {"text": "≤ hi"}, text
        return text

    async def error(self):
        code = await self.error_code("error")
        assert code == -32050, code
        text = await self.failure_text("fail")
        assert text == "it did not work", text
        return str(code)

    async def progress(self):
        seen = Mailbox()

        async def step(progress, total, message):
            seen.put(progress)

        await self.text("progress", {"n": 3}, on_progress=step)
        got = [await seen.get() for _ in range(3)]
        assert got == [1, 2, 3], got
        return "1,2,3"

    async def cancel(self):
        before = len(json.loads(await self.text("cancelled", {"wait": 0})))
        started = anyio.Event()

        async def step(progress, total, message):
            started.set()

        await self.cancellable(step, started)
        after = json.loads(await self.text("cancelled", {"wait": before + 1}))
        return str(len(after) - before)

    async def prompt_names(self):
        return json.dumps(sorted(await self.prompt_list()))

    async def prompts(self):
        names = await self.prompt_list()
        assert "greet" in names, names
        text = await self.get("greet", {"name": "Ada"})
        assert text == "Greet Ada.", text
        return text

    async def uris(self):
        return json.dumps(sorted(await self.resource_list()))

    async def resources(self):
        uris = await self.resource_list()
        assert "fake://text/1" in uris, uris
        text = await self.read("fake://text/1")
        assert text == "fake: text/1", text
        return text

    async def template_uris(self):
        return json.dumps(sorted(await self.template_list()))

    async def templates(self):
        uris = await self.template_list()
        assert "fake://item/{id}" in uris, uris
        text = await self.read("fake://item/7")
        assert text == "fake: item/7", text
        return text

    async def completion(self):
        values = await self.completions("greet", "name", "al")
        assert values == ["alan", "alice"], values
        return ",".join(values)

    async def subscription(self):
        uri = "fake://text/1"
        if not self.modern:
            await self.subscribe(uri)
            await self.text("touch", {"uri": uri})
            return await self.updated.get()
        async with self.listen(resource_subscriptions=[uri]) as events:
            await self.text("touch", {"uri": uri})
            async for event in events:
                assert (type(event).__name__, event.uri) == ("ResourceUpdated", uri), event
                return event.uri

    async def logging(self):
        meta = None
        if self.modern:
            meta = {"io.modelcontextprotocol/logLevel": "info"}
        else:
            await self.set_level("info")
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
            async with self.listen(tools_list_changed=True) as events:
                await self.text("add_tool", {"name": name})
                async for event in events:
                    assert type(event).__name__ == "ToolsListChanged", event
                    break
        else:
            await self.text("add_tool", {"name": name})
            await self.tools_changed.get()
        names = await self.names()
        assert name in names, names
        return "changed"

    async def told(self, command):
        """Runs a command that changes the tools, waits until the gateway tells of it, and lists them."""
        if self.modern:
            async with self.listen(tools_list_changed=True) as events:
                await anyio.run_process(command)
                async for event in events:
                    assert type(event).__name__ == "ToolsListChanged", event
                    break
        else:
            await anyio.run_process(command)
            await self.tools_changed.get()
        return json.dumps(await self.names())

    # Running them.

    async def run(self, capabilities):
        for capability in capabilities:
            await self.run_one(capability)

    async def run_one(self, capability):
        name, _, argument = capability.partition("=")
        step = getattr(self, name, None)
        if step is None:
            report(capability, None, "no API")
            return
        try:
            with anyio.fail_after(STEP_LIMIT):
                report(capability, True, await (step(argument) if argument else step()))
        except Exception as e:
            report(capability, False, f"{type(e).__name__}: {e}")


def report(capability, ok, detail):
    print(json.dumps({"capability": capability, "ok": ok, "detail": detail}, ensure_ascii=False), flush=True)
