"""What the clients of both lines of the Python SDK share."""

from mcp import types
from steps import Steps


class SDKClient(Steps):
    session = None

    # What the server may ask of a client, and say to it.

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
        message = getattr(message, "root", message)
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.put(str(message.params.uri))
        if isinstance(message, types.ToolListChangedNotification):
            self.tools_changed.put(True)

    # Primitives.

    async def text(self, tool, arguments, on_progress=None, meta=None):
        # The 2.x line sends the log level with every request by itself.
        result = await self.session.call_tool(tool, arguments, progress_callback=on_progress)
        return result.content[0].text

    async def prompt_list(self):
        return [p.name for p in (await self.session.list_prompts()).prompts]

    async def get(self, name, arguments=None):
        return (await self.session.get_prompt(name, arguments)).messages[0].content.text

    async def resource_list(self):
        return [str(r.uri) for r in (await self.session.list_resources()).resources]

    async def completions(self, prompt, name, value):
        ref = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self.session.complete(ref, {"name": name, "value": value})).completion.values

    async def set_level(self, level):
        await self.session.set_logging_level(level)
