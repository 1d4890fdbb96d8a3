from __future__ import annotations

import threading
import time

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.task import TOLD, GoesOn, Task
from tests.tui.screens import Keys, play, screen, until

pytestmark = pytest.mark.slow


def test_what_is_begun_takes_the_place_of_what_runs() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        task, results, is_free = Task(app.navigation), list[str](), threading.Event()

        def slow(goes_on: GoesOn) -> str:
            is_free.wait()
            assert not goes_on(0.5)
            return "slow"

        task.begin(slow, results.append)
        task.begin(lambda goes_on: f"quick {goes_on(0)}", results.append)
        await until(pilot, lambda: not task.is_running)
        is_free.set()
        await until(pilot, lambda: app.is_at_rest)
        assert results == ["quick True"]
        assert not task.stop()

    play("rollback.pcap", scene)


def test_how_far_it_is_is_said_no_more_when_it_has_ended() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        said = list[str]()

        def slow(goes_on: GoesOn) -> None:
            time.sleep(2 * TOLD)
            goes_on(0.4)
            app.call_from_thread(lambda: said.append(screen(app)))

        Task(app.navigation).begin(slow, lambda _: None)
        await until(pilot, lambda: app.is_at_rest)
        assert "40% · Esc stops" in said[0]
        assert "Esc stops" not in screen(app)

    play("rollback.pcap", scene)


def test_it_says_how_far_it_is_and_how_to_stop_it_and_why_it_failed() -> None:
    async def scene(app: InspectApp, pilot: Keys) -> None:
        task, words = Task(app.navigation), list[str]()

        def refused(goes_on: GoesOn) -> str:
            goes_on(0.2)
            time.sleep(2 * TOLD)
            goes_on(0.4)
            raise UsageError("not like this")

        task.begin(refused, words.append, say=words.append, failed=words.append)
        await until(pilot, lambda: not task.is_running)
        assert words == ["40% · Esc stops", "not like this"]

    play("rollback.pcap", scene)
