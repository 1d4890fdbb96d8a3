"""Fuzzing of what is written of any messages: reports, and files that another program reads
back.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Hashable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcpinspect.output.export.atomic import AtomicFile
from dcpinspect.output.export.formats import FORMATS
from dcpinspect.output.export.message_writers import WriterOptions
from dcpinspect.output.report.report_contents import of_reading
from dcpinspect.output.report.written import format_of, written
from dcpinspect.output.statistics import Statistics
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import Store
from tests.fuzz import conversations
from tests.fuzz.captures import IN_MEMORY
from tests.fuzz.conversations import Kept, assert_steers_nothing

_HOSTILE = "<b>&[red]"
"""As ``conversations.TEXTS`` has it."""


class _Page(HTMLParser):
    """Everything in a page that could run, or load something."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.unwanted: list[object] = []

    def updatepos(self, _: int, j: int) -> int:
        """Which line it is in nobody asks, and to count them takes a tenth of parsing."""
        return j

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.unwanted += [
            (tag, name, value)
            for name, value in attrs
            if name.startswith("on")
            or (name in ("src", "href", "action", "data") and not (value or "").startswith("#"))
        ]
        if tag in ("iframe", "object", "embed", "form", "base", "img", "link"):
            self.unwanted.append(tag)


def check_report(program: bytes) -> set[Hashable]:
    """As ``check_reports``."""
    return check_reports([program])[0]


def check_reports(programs: Sequence[bytes]) -> list[set[Hashable]]:
    """A page and a text are written, whatever was said, and nothing of that steers who shows them.
    All are one capture, which is read once for both.
    """
    content, owners = conversations.capture(programs)
    statistics = Statistics()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder, Store() as store:
        path = Path(folder, "x.pcap")
        path.write_bytes(content)
        with Reading([str(path)], keeper=store) as reading:
            reading.check()
            for batch in store.fill(reading):
                statistics.feed(batch)
        source = of_reading(reading, store, statistics.charts)
        texts = {}
        for suffix in (".html", ".md"):
            file = AtomicFile(str(path.with_suffix(suffix)))
            file.write(written(format_of(file.path), source).encode())
            file.commit()
            texts[suffix] = path.with_suffix(suffix).read_text("utf-8")
        assert len(os.listdir(folder)) == 3
    for text in texts.values():
        assert_steers_nothing(text)
        assert _HOSTILE not in text
    page = _Page()
    page.feed(texts[".html"])
    assert page.scripts == 1
    assert not page.unwanted, page.unwanted
    found: list[set[Hashable]] = [set() for _ in programs]
    for one in source.findings:
        for connection in one.connections:
            found[owners[connection - 1]].add(one.rule)
    return found


def check_file(program: bytes) -> set[Hashable]:
    """As ``check_files``."""
    return check_files([program])[0]


def check_files(programs: Sequence[bytes]) -> list[set[Hashable]]:
    """Parquet, Arrow, JSON and NDJSON have the same rows and values, as their own readers see them.
    All are one capture.
    """
    content, owners = conversations.capture(programs)
    with tempfile.NamedTemporaryFile(dir=IN_MEMORY) as file:
        Path(file.name).write_bytes(content)
        with Reading([file.name]) as reading:
            batches = list(reading)
        written = {name: Kept() for name in ("parquet", "arrow", "json", "ndjson")}
        for name, target in written.items():
            writer = FORMATS[name].messages(target, WriterOptions(), lambda: reading.first_time_ns)
            for batch in batches:
                writer.write(batch, np.arange(len(batch)))
            writer.end()
    rows = sum(len(batch) for batch in batches)
    parquet = pq.read_table(pa.BufferReader(bytes(written["parquet"].text)))
    arrow = pa.ipc.open_file(bytes(written["arrow"].text)).read_all()
    assert parquet.num_rows == arrow.num_rows == rows
    assert parquet.equals(arrow)
    lines = [json.loads(line) for line in written["ndjson"].text.decode().splitlines()]
    assert json.loads(written["json"].text.decode()) == lines
    assert len(lines) == rows
    found: list[set[Hashable]] = [set() for _ in programs]
    for line, row in zip(lines, arrow.to_pylist(), strict=True):
        same = {
            name
            for name in line.keys() & row.keys()
            if isinstance(row[name], int | str) and isinstance(line[name], int | str)
        }
        if line.get("end_seqno") == "no end":
            line["end_seqno"] = ENDLESS
        assert {name: str(line[name]) for name in same} == {name: str(row[name]) for name in same}
        found[owners[line["connection"] - 1]].add((line.get("name"), line.get("problem") is None))
    return found
