"""A DCP command more than there is: one row of the table of opcodes and one layout, added while the
program starts.

``python -m tests.scenarios.added ROW LAYOUT`` prints as JSON what becomes of conversations that use
it; ``test_added`` runs it. Everything else of the program is as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

NAME = "dcp_touched"
_AFTER = {
    "dcpinspect.protocol.opcodes": "class Opcode(_Numbered):\n",
    "dcpinspect.protocol.layouts": "DCP = (\n",
}
"""By module: the text that the addition follows."""
_IMPORTS = "from dcpinspect.protocol.fields import Field, FieldKind, Layout\n"
"""What a layout is written with; the module that collects them needs not all of it."""


class _Loader(SourceFileLoader):
    """Loads a module with one line more."""

    line = ""

    def get_code(self, fullname: str) -> CodeType:
        before, found, rest = self.get_data(self.path).decode().partition(_AFTER[fullname])
        assert found
        imports = _IMPORTS if fullname.endswith("layouts") else ""
        return compile(f"{before}{imports}{found}    {self.line}\n{rest}", self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, lines: Mapping[str, str]) -> None:
        self._lines = lines

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._lines else None
        if spec is not None and spec.origin is not None:
            loader = _Loader(fullname, spec.origin)
            loader.line = self._lines[fullname]
            spec.loader = loader
        return spec


def main(row: str, layout: str) -> None:
    """Adds both, then tells the conversation."""
    sys.meta_path.insert(0, _Finder(dict(zip(_AFTER, (row, layout), strict=True))))
    from tests.encode import encode
    from tests.findings.checked import findings
    from tests.peers.script import Stream
    from tests.streams.told import opened, tables

    def touch(stream: Stream, seqno: int) -> None:
        stream.send(NAME, by_seqno=seqno, rev_seqno=7, key=f"k{seqno}", collection=0, cas=1 << 40)

    talk = opened(connection_buffer_size="10000")
    stream = talk.stream(7)
    stream.snapshot(0, 4, "memory")
    stream.mutation(1, "k1")
    touch(stream, 2)
    touch(stream, 3)
    stream.mutation(4, "k4")
    seen, outstanding = tables(talk), talk.counted
    found = [one.rule for one in findings(talk)]
    talk.acknowledge()
    acknowledged = tables(talk).connections[0]["outstanding_bytes"]
    talk.send("client", encode(NAME, "response", opaque=stream.opaque))

    holed = opened("test:2")
    stream = holed.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(1, "k1")
    with holed.lost():
        stream.mutation(2, "k2")
    for seqno in (3, 4, 5):
        touch(stream, seqno)

    marked = opened("test:3", enable_stream_id="true")
    marked.stream_ids = True
    stream = marked.stream(7, value={"sid": "3"})
    stream.sid = 3
    stream.snapshot(0, 9, "memory")
    touch(stream, 1)
    stream.sid = 0
    touch(stream, 2)
    told: dict[str, Any] = {
        "gaps": seen.gaps,
        "streams": seen.streams,
        "connections": seen.connections,
        "anomalies": seen.anomalies,
        "outstanding": outstanding,
        "outstanding when acknowledged": acknowledged,
        "findings": found,
        "after the answer": [one.rule for one in findings(talk)],
        "gaps with a hole": tables(holed).gaps,
        "streams with a hole": tables(holed).streams,
        "with stream-ids": [(one.rule, one.count) for one in findings(marked)],
    }
    sys.stdout.write(json.dumps(told, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
