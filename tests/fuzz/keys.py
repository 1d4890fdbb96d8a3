"""Fuzzing of the terminal UI: any keys, in any order, on a small capture of hostile texts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

from textual import events
from textual.keys import _character_to_key

from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.inspection import Inspection
from tests.fuzz import conversations
from tests.fuzz.captures import IN_MEMORY
from tests.tui.screens import Keys, screen, settled, until

_NAMED = (
    "escape",
    "enter",
    "tab",
    "shift+tab",
    "up",
    "down",
    "left",
    "right",
    "pageup",
    "pagedown",
    "home",
    "end",
    "space",
    "backspace",
)
_SIGNS = {
    _character_to_key(chr(code)): chr(code)
    for code in range(ord("!"), ord("~") + 1)
    if chr(code) != "q"
}
"""What is typed, by what Textual calls the key."""
KEYS = (*_NAMED, "ctrl+f", "ctrl+o", "ctrl+p", *_SIGNS)
"""Without those that end the program, or send it behind."""
_NEXT = b"\xff"
"""No key: those of another program begin."""
_SECONDS = 5
"""Of processor time, for the keys of one program: several share one terminal UI, and none may use
up what the others leave.
"""
_AT_ONCE = 4
_MOST = 24
_WAYS = b"".join(bytes([0, number, 1, 12, 0xF0 | number]) for number in range(40))


@cache
def content() -> bytes:
    """A capture in which keys and names are of any kind."""
    return conversations.capture([_WAYS])[0]


def check(program: bytes) -> set[Hashable]:
    """As ``check_all``, of one, or of those that were joined."""
    return set().union(*check_all(program.split(_NEXT)))


def check_all(programs: Sequence[bytes]) -> list[set[Hashable]]:
    """Nothing is raised, what is shown steers no terminal, and Esc leads back to where keys count.
    One behind the other, in one program: it takes as long to start as to press some dozen keys.
    """
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder, contextlib.chdir(folder):
        Path("x.pcap").write_bytes(content())
        with patch.dict(os.environ, DCPINSPECT_CONFIG=os.devnull, XDG_STATE_HOME=os.devnull):
            return asyncio.run(_pressed(InspectApp(Inspection(["x.pcap"])), programs))


def joined(programs: Sequence[bytes]) -> bytes:
    """One that presses the keys of each, one behind the other."""
    return _NEXT.join(program[:_MOST].replace(_NEXT, b"") for program in programs)


async def _pressed(app: InspectApp, programs: Sequence[bytes]) -> list[set[Hashable]]:
    found: list[set[Hashable]] = []
    try:
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda: app.inspection.state != "reading" and app.is_up_to_date)
            for program in programs:
                seen: set[Hashable] = set()
                begin = time.process_time()
                keys = [KEYS[byte % len(KEYS)] for byte in program[:_MOST] if byte != _NEXT[0]]
                for at in range(0, len(keys), _AT_ONCE):
                    await _press(app, pilot, keys[at : at + _AT_ONCE])
                    seen.add((type(app.screen).__name__, type(app.focused).__name__))
                await _press(app, pilot, ["escape"] * 4)
                assert time.process_time() - begin <= _SECONDS, (
                    "the keys of one program take too long"
                )
                found.append(seen)
    finally:
        app.close()
    return found


async def _press(app: InspectApp, pilot: Keys, keys: list[str]) -> None:
    for key in keys:
        app.post_message(events.Key(key, " " if key == "space" else _SIGNS.get(key)))
    await settled(app, pilot)
    for line in screen(app).split("\n"):
        conversations.assert_steers_nothing(line)


def program(rng: random.Random) -> bytes:
    """A few keys."""
    return rng.randbytes(rng.randrange(1, _MOST))
