"""Asks ``dcpinspect mcp`` through the official client, over a real pipe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult

T = TypeVar("T")


def talk(body: Callable[[Client], Awaitable[T]], *arguments: str | Path) -> T:
    """What ``body`` returns, which talks to the command with these arguments."""

    async def run() -> T:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "dcpinspect", "mcp", *map(str, arguments)],
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        assert sys.__stderr__ is not None
        async with Client(
            stdio_client(command, errlog=sys.__stderr__)
        ) as client:  # the default is that of the import, closed by now
            return await body(client)

    return anyio.run(run)


async def ask(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    """The data of an answer, which is no error."""
    result = await client.call_tool(tool, given)
    assert not result.is_error, text(result)
    assert isinstance(result.structured_content, dict)
    room = given.get("max_characters", 8000)
    assert (
        max(
            len(json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)),
            len(text(result)),
        )
        <= room
    )
    return result.structured_content


async def refused(client: Client, tool: str, **given: Any) -> str:
    """The sentence of an answer that is an error."""
    result = await client.call_tool(tool, given)
    assert result.is_error
    return text(result)


def text(result: CallToolResult) -> str:
    """The text of an answer."""
    [content] = result.content
    assert content.type == "text"
    return content.text
