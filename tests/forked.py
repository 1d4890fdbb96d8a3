"""Runs tests in several processes, which are forked once all tests are collected: importing and
collecting is done once, not in each.

``pytest --processes 3``. Each process takes the next tests of a file when it has run those it had,
and tells this one what came of them.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import struct
import threading
import traceback
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from _pytest.capture import CaptureManager

_AT_ONCE = 8
"""Tests that a process takes at once: of one file, whose fixtures they may share."""
_SIZE = struct.Struct("<I")


class Forked:
    """Plugin of the process that collects the tests, and is told what came of them."""

    def __init__(self, processes: int) -> None:
        self._processes = processes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Runs all tests; the errors of collecting are left to pytest."""
        if (
            session.testsfailed or session.config.option.collectonly or threading.active_count() > 1
        ):  # threads do not survive a fork
            return None
        of_files = [list(items) for _, items in groupby(session.items, lambda item: item.path)]
        portions = [portion for items in of_files for portion in _portions(items)]
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # made once, for all
        take, give = os.pipe()
        os.set_blocking(
            give, False
        )  # an error in place of waiting for ever: a pipe has room for 16,000
        os.write(give, b"".join(map(_SIZE.pack, range(len(portions)))))
        processes = [
            _Process(session, portions, take, give, number) for number in range(self._processes)
        ]
        os.close(give)
        os.close(take)
        try:
            _listen(session, processes)
        finally:
            for process in processes:
                process.end()
        return True


def _portions(items: list[pytest.Item]) -> Iterator[list[pytest.Item]]:
    rest = iter(items)
    while portion := list(islice(rest, _AT_ONCE)):
        yield portion


class _Process:
    """A process that runs tests."""

    def __init__(
        self,
        session: pytest.Session,
        portions: list[list[pytest.Item]],
        take: int,
        give: int,
        number: int,
    ) -> None:
        self.ear, mouth = os.pipe()
        self.heard = b""
        self.running: tuple[str, Any] | None = None
        """ID and place of the test that runs."""
        self.has_ended = False
        self.pid = os.fork()
        if not self.pid:
            os.close(give)
            os.close(self.ear)
            _run(session, portions, take, mouth, number)
        os.close(mouth)

    def messages(self) -> Iterator[tuple[str, Any]]:
        """What it tells: waits until there is something."""
        more = os.read(self.ear, 1 << 20)
        self.has_ended = not more
        self.heard += more
        while len(self.heard) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self.heard)
            if len(self.heard) < _SIZE.size + size:
                break
            yield pickle.loads(self.heard[_SIZE.size : _SIZE.size + size])  # noqa: S301 - of our own process
            self.heard = self.heard[_SIZE.size + size :]

    def end(self) -> None:
        """Ends it, if it has not; waits for it."""
        if not self.has_ended:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.ear)


def _listen(session: pytest.Session, processes: list[_Process]) -> None:
    hook, config = session.config.hook, session.config
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process.ear, selectors.EVENT_READ, process)
        while selector.get_map():
            for key, _ in selector.select():
                process = cast(_Process, key.data)
                for kind, content in process.messages():
                    if kind == "starts":
                        process.running = content
                    elif kind == "ends":
                        process.running = None
                        hook.pytest_runtest_logfinish(nodeid=content[0], location=content[1])
                    elif kind == "report":
                        hook.pytest_runtest_logreport(
                            report=hook.pytest_report_from_serializable(config=config, data=content)
                        )
                    else:
                        _fail(session, ("a process", ("", None, "")), content)
                    _end_if_asked(session)
                if process.has_ended:
                    selector.unregister(process.ear)
                    if process.running is not None:
                        _fail(
                            session,
                            process.running,
                            (
                                "the process ended during this test; those that it would have run "
                                "next were not run"
                            ),
                        )
                        _end_if_asked(session)


def _end_if_asked(session: pytest.Session) -> None:
    """Ends the run after the first failure (``-x``), not after what came with it."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def _fail(session: pytest.Session, about: tuple[str, Any], why: str) -> None:
    report = pytest.TestReport(about[0], about[1], {}, "failed", why, "call")
    session.config.hook.pytest_runtest_logreport(report=report)


class _Teller:
    """Plugin of a process that runs tests."""

    def __init__(self, config: pytest.Config, mouth: int) -> None:
        self._config, self._mouth = config, mouth

    def tell(self, kind: str, content: object) -> None:
        """Tells the process that has collected the tests."""
        data = pickle.dumps((kind, content))
        data = _SIZE.pack(len(data)) + data
        while data:
            data = data[os.write(self._mouth, data) :]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hands a report on."""
        self.tell(
            "report",
            self._config.hook.pytest_report_to_serializable(config=self._config, report=report),
        )


def _run(
    session: pytest.Session, portions: list[list[pytest.Item]], take: int, mouth: int, number: int
) -> NoReturn:
    """Runs tests until none is left, and ends this process."""
    config, teller = session.config, _Teller(session.config, mouth)
    try:
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(teller)
        capture = config.pluginmanager.getplugin("capturemanager")
        assert isinstance(capture, CaptureManager)
        capture.stop_global_capturing()  # its files are those of the other processes, too
        capture.start_global_capturing()
        factory = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = Path(factory.getbasetemp()) / f"process{number}"
        factory._basetemp.mkdir(mode=0o700)
        items = _taken(portions, take)
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            teller.tell("starts", (item.nodeid, item.location))
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            teller.tell("ends", (item.nodeid, item.location))
            item = following
    except BaseException:
        teller.tell("broken", traceback.format_exc())
    os._exit(0)


def _taken(portions: list[list[pytest.Item]], take: int) -> Iterator[pytest.Item]:
    while data := os.read(take, _SIZE.size):
        yield from portions[_SIZE.unpack(data)[0]]
