"""``--redact``: what did not parse is a text, whatever a layout made of its first fields.

Bodies of all commands that do not fit their layouts are made of one marker. No four bytes of it may
be in any output: neither as text, nor as digits, nor as a number or a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.render.field_table import value_text
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.fields import Field, Layout, MessageSide, RecordList
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.meanings import cas_time, utc
from dcpinspect.protocol.message import Context
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tui.copying import copied
from dcpinspect.tui.field_entries import Entries, Entry
from dcpinspect.tui.inspection import Inspection
from tests import builders
from tests.encode import encode, encode_snappy
from tests.scenarios.test_redaction_everywhere import FILES, told

pytestmark = pytest.mark.slow

MARKER = b"Kq\xb7Wz/Mj{R:e"
"""Every four bytes of it, as a number, are above what counts and lengths of this capture reach."""
SIZES = (1, 4, 6, 8, 9, 12, 17, 23, 41)
OUTPUTS = (
    *(
        "read txt",
        "read json",
        "read csv",
        "read values",
        "read parquet",
        "read -V -x",
        "read -w",
        "read --check",
    ),
    *("check", "check ndjson", "connections json", "sql messages", "info", "report"),
)


def _bytes_of(size: int) -> bytes:
    return (MARKER * (size // len(MARKER) + 1))[:size]


WINDOWS = [_bytes_of(2 * len(MARKER))[at : at + 4] for at in range(len(MARKER))]
LONG = [_bytes_of(2 * len(MARKER))[at : at + 8] for at in range(len(MARKER))]
NUMBERS = sorted(
    {int.from_bytes(window, order) for window in (*WINDOWS, *LONG) for order in ("big", "little")}
)
TIMES = {utc(int.from_bytes(window, "big")): window for window in WINDOWS} | {
    text.removesuffix(" UTC"): window
    for window in LONG
    if (text := cas_time(int.from_bytes(window, "big"))) is not None
}
_NEAR = 4096
"""A number that differs by less gives the marker away: what is left of a length, for example."""


def leaks(text: bytes) -> set[str]:
    """What of the marker is in a text."""
    found = {f"bytes {window!r}" for window in WINDOWS if window in text}
    found |= {f"escaped {window!r}" for window in WINDOWS if repr(window)[2:-1].encode() in text}
    digits = re.sub(rb"[\s|]+", b"", text).lower()
    found |= {f"digits {window!r}" for window in WINDOWS if window.hex().encode() in digits}
    letters = b"".join(re.findall(rb"\('(.)'\)", text))  # of the byte grid
    found |= {f"grid {window!r}" for window in WINDOWS if window in letters}
    for number in {
        int(one)
        for one in re.findall(rb"(?<![0-9a-f])\d{8,20}(?![0-9a-f])", text.replace(b",", b""))
    }:
        found |= {f"number {number}" for one in NUMBERS if abs(one - number) < _NEAR}
    return found | {f"time {window!r}" for time, window in TIMES.items() if time.encode() in text}


def _extras(layout: Layout) -> bytes:
    """Extras that fit; a number that gives a size gives the greatest one."""
    measured = {
        item.size for item in layout.value if isinstance(item, Field) and isinstance(item.size, str)
    }
    out = bytearray(layout.extras_size)
    for spec in layout.extras:
        if spec.name in measured:
            out[spec.offset : spec.offset + spec.kind.size] = b"\xff" * spec.kind.size
    for offset, size, number in layout.when:
        out[offset : offset + size] = number.to_bytes(size, "big")
    return bytes(out)


def _fits(layouts: tuple[Layout, ...], size: int) -> bool:
    """Whether so many bytes are a value of numbers."""
    for layout in layouts:
        if layout.value_size == size:
            return True
        for item in layout.value:
            width = (
                sum(field.kind.size for field in item.fields) if isinstance(item, RecordList) else 0
            )
            if width and all(field.kind.size for field in item.fields) and size % width == 0:  # type: ignore[union-attr]
                return True
    return False


def _odd(layouts: tuple[Layout, ...], size: int) -> int:
    """A size of extras, this or more, that no layout has."""
    return next(
        one for one in range(size, 250) if all(layout.extras_size != one for layout in layouts)
    )


def _begun(layout: Layout) -> bytes:
    """A first record in which all lengths are 0."""
    records = next((item for item in layout.value if isinstance(item, RecordList)), None)
    return (
        b""
        if records is None
        else bytes(
            sum(
                field.kind.size or (field.size if isinstance(field.size, int) else 0)
                for field in records.fields
            )
        )
    )


def _of_command(magic: int, opcode: int, sizes: Sequence[int]) -> Iterator[bytes]:
    """Messages of one command and side that do not fit its layouts; ``sizes``: of values."""
    side: MessageSide = "response" if magic in (0x81, 0x83) else "request"
    layouts = layouts_of(opcode, side, server=magic >= 0x82)
    for layout in (*layouts, *([] if layouts else [Layout(opcode, side, "", "")])):
        statuses = (
            list(layout.status)
            if isinstance(layout.status, tuple)
            else [0]
            if layout.status == "success"
            else [0x24]
        )
        common: dict[str, Any] = {
            "magic": magic,
            "opcode": opcode,
            "specific": statuses[-1] if side == "response" else 7,
        }
        extras = _extras(layout)
        for size in sizes:
            if not _fits(layouts, size):
                key = b"\x08key" if layout.key is not None else b""
                yield builders.message(**common, extras=extras, key=key, value=_bytes_of(size))
                second = builders.message(
                    **common, extras=extras, key=key, value=_begun(layout) + _bytes_of(size)
                )
                if any(problem.severity == "error" for problem in annotate(second).problems):
                    yield second
        for datatype, value in (
            (2, _bytes_of(31)),
            (4, _bytes_of(31)),
            (6, encode_snappy(_bytes_of(31))),
            (7, _bytes_of(31)),
            (5, b"\0" * 4 + _bytes_of(11)),
        ):
            yield builders.message(**common, extras=extras, value=value, datatype=datatype)
        yield builders.message(
            **common, extras=_bytes_of(_odd(layouts, 5)), key=_bytes_of(12), value=_bytes_of(31)
        )
        too_short = bytearray(builders.message(**common, extras=_bytes_of(31)))
        too_short[2:5] = b"\0\x90\x90"
        yield bytes(too_short)
        flexible = bytearray(
            builders.message(**common, extras=_bytes_of(_odd(layouts, 23)), value=_bytes_of(9))
        )
        if magic in (0x80, 0x81):
            flexible[0], flexible[2:5] = 0x08 if magic == 0x80 else 0x18, bytes((flexible[4], 0, 0))
            yield bytes(flexible)


def _capture(path: Path) -> Path:
    said: dict[int, list[bytes]] = {0: [], 1: []}
    for magic in (0x80, 0x81, 0x82, 0x83):
        for opcode in range(256):
            messages = list(dict.fromkeys(_of_command(magic, opcode, [23])))
            said[magic in (0x81, 0x82)] += messages[:: -(-len(messages) // 3)]
    features = [{"feature": number} for number in (0x12, 0x0A, 0x06, 0x0B)]
    client = [encode("hello", key=b"agent", opaque=1, features=features), *said[0]]
    server = [encode("hello", side="response", opaque=1, features=features), *said[1]]
    return builders.capture(path, client=b"".join(client), server=b"".join(server))


def test_of_no_command_anything_stays_that_did_not_parse() -> None:
    redactor = Redactor(b"pepper")
    shown: list[bytes] = []
    for magic in (0x80, 0x81, 0x82, 0x83):
        for opcode in range(256):
            for data in dict.fromkeys(_of_command(magic, opcode, SIZES)):
                message = redactor.message(annotate(data, context=Context("on")))
                shown += [
                    message.data[HEADER_SIZE:],
                    repr(message.value).encode(),
                    repr(message.problems).encode(),
                ]
                for field in (
                    part
                    for whole in message.fields
                    if whole.offset >= HEADER_SIZE
                    for part in whole.walk()
                ):
                    shown += [repr((field.name, field.value, field.meaning)).encode(), field.raw]
    assert len(shown) > 100_000
    assert leaks(b"\n".join(shown)) == set()


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _capture(tmp_path_factory.mktemp("malformed") / "malformed.pcap")


@pytest.mark.parametrize("output", OUTPUTS)
def test_nothing_that_did_not_parse_is_in_what_a_command_writes(
    output: str, capture: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name, *rest = (
        str(tmp_path / part) if part.startswith("x.") else part for part in FILES[output]
    )
    assert main([name, str(capture), *rest, "--redact-salt", "pepper"]) in (0, 1, 3)
    said = capfdbinary.readouterr()
    assert leaks(said.out + said.err + b"".join(told(path) for path in tmp_path.iterdir())) == set()


def test_the_search_finds_what_did_not_parse_where_nothing_is_redacted(
    capture: Path, tmp_path: Path
) -> None:
    for name, kinds in (("x.json", {"digits", "number"}), ("x.pcapng", {"bytes"})):
        way = ["-w"] if name.endswith("pcapng") else ["-o"]
        assert main(["read", str(capture), *way, str(tmp_path / name)]) in (0, 1, 3)
        assert kinds <= {leak.partition(" ")[0] for leak in leaks((tmp_path / name).read_bytes())}


def _texts(entries: list[Entry]) -> Iterator[str]:
    for entry in entries:
        yield f"{entry.label} {entry.text}"
        if entry.source is not None:
            yield entry.source()
        elif entry.field is not None:
            yield value_text(entry.field)
        if entry.inner is not None:
            yield from _texts(list(entry.inner(20)))


def test_the_terminal_ui_shows_nothing_of_it(capture: Path) -> None:
    inspection = Inspection([str(capture)], redactor=Redactor(b"pepper"))
    inspection.load()
    shown: list[str] = []
    for row in range(1, inspection.store.rows + 1, 12):
        batch = inspection.store.messages([row])
        shown += _texts(Entries(batch.annotate(0), 80, 20).top())
        shown += [copied(form, batch) for form in ("json", "hex")]
    inspection.close()
    assert len(shown) > 1_000
    assert leaks("\n".join(shown).encode(errors="surrogateescape")) == set()
