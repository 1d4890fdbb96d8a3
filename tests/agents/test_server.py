"""The server: questions at once, progress, cancelling, damage, and HTTP with a token."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.agents.asking import ask, refused, talk
from tests.peers.truth import SAMPLES

LARGE = {"captures": ["large.pcapng.gz"]}


@pytest.mark.slow
def test_a_quick_question_is_answered_while_a_slow_one_is_and_the_slow_one_tells_how_far_it_is() -> (
    None
):
    async def body(client: Client) -> None:
        ended: list[str] = []
        shares: list[float] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            assert (total, message) == (1.0, "reading")
            shares.append(progress)

        async def slow() -> None:
            await client.call_tool("info", LARGE, progress_callback=note)
            ended.append("slow")

        async def quick() -> None:
            await ask(client, "findings", captures=["upr.pcap"])
            ended.append("quick")

        async with anyio.create_task_group() as group:
            group.start_soon(slow)
            group.start_soon(quick)
            for row in range(1, 10):  # of one capture, which one thread at a time reads
                group.start_soon(partial(ask, client, "message", captures=["tour.pcapng"], row=row))
        assert ended == ["quick", "slow"]
        assert shares == sorted(shares)
        assert shares

    talk(body, SAMPLES)


@pytest.mark.parametrize("tool", ["info", "sql"])
def test_a_question_that_was_cancelled_stops_its_work(tool: str) -> None:
    endless = {
        "query": (
            "select count(*) from range(10000000000) a, range(10000000000) b where a.range + "
            "b.range = 3"
        )
    }

    async def body(client: Client) -> None:
        capture = LARGE if tool == "info" else {"captures": ["upr.pcap"]}
        await ask(client, "findings", captures=["upr.pcap"])
        with anyio.move_on_after(1) as scope:
            await client.call_tool(tool, {**capture, **(endless if tool == "sql" else {})})
        assert scope.cancelled_caught
        with anyio.fail_after(60):
            await ask(
                client, "findings", **capture
            )  # waits for the other's thread to let go of the capture

    talk(body, SAMPLES)


def test_a_damaged_capture_is_answered_with_its_damage(tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes((SAMPLES / "rollback.pcap").read_bytes()[:-7])
    (tmp_path / "empty.pcap").touch()

    async def body(client: Client) -> None:
        info = await ask(client, "info", captures=["cut.pcap"])
        assert "cut.pcap, offset 36412: the last record is cut short" in info["damage"][0]["text"]
        assert (await ask(client, "messages", captures=["cut.pcap"]))["total"] >= 150
        assert "is empty" in await refused(client, "info", captures=["empty.pcap"])

    talk(body, tmp_path)
