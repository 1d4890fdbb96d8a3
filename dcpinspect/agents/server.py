"""Serves the tools over the Model Context Protocol: each question in a thread, with progress, and
an end when it is cancelled.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import anyio
from anyio.to_thread import run_sync
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from dcpinspect import __version__
from dcpinspect.agents.answers import USUAL, Answer
from dcpinspect.agents.library import Library, Question
from dcpinspect.agents.tools import INSTRUCTIONS, Tools, listing
from dcpinspect.errors import DcpInspectError, memory_ended
from dcpinspect.output.export.json_table import plain_json
from dcpinspect.text import did_you_mean, escape

TOOLS = ("info", "findings", "vbucket", "table", "messages", "message", "sql", "explain")
_Captures = Annotated[
    list[str],
    Field(
        description=(
            "Captures as info lists them, or directories of them; several are read as one, in "
            "order of time."
        )
    ),
]
_Skip = Annotated[
    int,
    Field(
        ge=0,
        le=1 << 53,
        description=(
            "Leave out so many entries from the start: the answer before says which number goes on."
        ),
    ),
]
_Room = Annotated[int, Field(ge=1000, le=200_000, description="About how long the answer may be.")]
_REPORTED_S = 0.5
"""Seconds between two reports of progress."""


def server(library: Library) -> MCPServer[Any]:
    """Returns the server with all tools."""
    served = _Server(
        "dcpinspect", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    for name in TOOLS:
        served.add_tool(
            _tool(name, library),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
    return served


class _Server(MCPServer[Any]):
    """Says in a line what is wrong with the arguments of a question."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        parameters = {
            tool.name: tool.input_schema["properties"] for tool in await self.list_tools()
        }
        for argument in arguments:
            if name in parameters and argument not in parameters[name]:
                meant = did_you_mean(argument, parameters[name])
                return _wrong(f"{name} has no argument {escape(argument)}{meant}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong = error.__cause__.errors()[0]
            return _wrong(f"{name}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}")


def _tool(name: str, library: Library) -> Callable[..., Any]:
    """Returns what the server calls for a tool, which also takes captures, and the bounds of the
    answer.
    """
    method: Callable[..., Answer] = getattr(Tools, name)

    async def run(
        context: Context[Any, Any],
        captures: _Captures = [],  # noqa: B006 - only read
        skip: _Skip = 0,
        max_characters: _Room = USUAL,
        **given: Any,
    ) -> CallToolResult:
        def work(question: Question) -> tuple[dict[str, Any], str]:
            if name == "explain":
                return Tools.explain(**given).bounded(skip, max_characters)
            if name == "info" and not captures:
                return listing(library.captures()).bounded(skip, max_characters)
            with library.reading(captures, question) as recording:
                return method(Tools(recording, question), **given).bounded(skip, max_characters)

        return await _answered(context, work)

    parameters = dict(inspect.signature(run, eval_str=True).parameters)
    del parameters["given"]
    if name == "explain":
        del parameters["captures"]
    elif name != "info":
        parameters["captures"] = parameters["captures"].replace(default=inspect.Parameter.empty)
    of_method = inspect.signature(method, eval_str=True).parameters
    parameters |= {key: of_method[key] for key in of_method if key != "self"}
    run.__name__, run.__doc__ = name, " ".join((method.__doc__ or "").split())
    signature = inspect.Signature(
        [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in parameters.values()
        ],
        return_annotation=CallToolResult,
    )
    setattr(run, "__signature__", signature)  # noqa: B010 - functions do not declare it
    return run


async def _answered(
    context: Context[Any, Any], work: Callable[[Question], tuple[dict[str, Any], str]]
) -> CallToolResult:
    """Returns what the thread answers. Whoever cancels the request ends the thread, too."""
    question = Question()
    async with anyio.create_task_group() as group:
        group.start_soon(_report, context, question)
        try:
            result = await run_sync(partial(_answered_here, work, question), abandon_on_cancel=True)
        finally:
            question.cancel()
            group.cancel_scope.cancel()
    return result


def _answered_here(
    work: Callable[[Question], tuple[dict[str, Any], str]], question: Question
) -> CallToolResult:
    """Answers in this thread. What is wrong with a question, or a capture, is an answer for the
    agent, in the sentence of the command.
    """
    try:
        data, text = work(question)
    except DcpInspectError as error:
        return _wrong("\n".join([str(error), *getattr(error, "details", ())]))
    except InterruptedError:
        return _wrong("cancelled")
    except Exception as error:
        if (ended := memory_ended(error)) is None:
            raise
        return _wrong(ended)
    # as JSON has it: times, bytes and numbers of 64 bits
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=json.loads(plain_json(data)),
    )


def _wrong(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


async def _report(context: Context[Any, Any], question: Question) -> None:
    reported_share = 0.0
    while True:
        await anyio.sleep(_REPORTED_S)
        if question.share > reported_share:
            reported_share = question.share
            await context.report_progress(reported_share, 1.0, "reading")
