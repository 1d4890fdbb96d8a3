"""Contents of reports for the tests: of samples, and of a conversation whose every name is
markup.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dcpinspect.output.report.report_contents import Contents, Limits, Source, contents, of_reading
from dcpinspect.output.statistics import Statistics
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import Store
from tests.builders import capture, message, mutation

MARKUP = (
    b"</pre></script></title></style><script>document.title='taken'</script><img src=x "
    b"onerror=\"document.title='taken'\">\"'><b id=taken>"
)
"""Ends whatever it stands in, and then runs a script, if anything takes it for markup."""


@contextmanager
def source(*paths: Path | str, redactor: Redactor | None = None) -> Iterator[Source]:
    """Of these captures."""
    with Store() as store, Reading([*map(str, paths)], keeper=store) as reading:
        reading.check(redactor=redactor)
        statistics = Statistics()
        for batch in store.fill(reading):
            statistics.feed(batch)
        yield of_reading(reading, store, statistics.charts)


def gathered(*paths: Path | str, limits: Limits | None = None) -> Contents:
    """Those of these captures."""
    with source(*paths) as found:
        return contents(found, limits)


def hostile(path: Path, markup: bytes = MARKUP) -> Path:
    """A conversation in which agent, DCP name, bucket, keys, values and refusals are ``markup``,
    and things go wrong.
    """
    agent = b'{"a":"%s"}' % markup.replace(b'"', b'\\"')
    client = [
        message(opcode=0x1F, key=agent, value=b"\x00\x06\x00\x0b", opaque=1),
        message(opcode=0x50, key=markup, extras=struct.pack(">II", 0, 1), opaque=2),
        message(opcode=0x89, key=markup, opaque=3),
        message(opcode=0x5E, key=markup, value=markup, opaque=4),
        message(
            opcode=0x53,
            extras=struct.pack(">IIQQQQQ", 0, 0, 0, (1 << 64) - 1, 0, 0, 0),
            specific=7,
            opaque=0x11,
        ),
        message(
            opcode=0x53,
            extras=struct.pack(">IIQQQQQ", 0, 0, 9, (1 << 64) - 1, 5, 9, 9),
            specific=8,
            value=markup,
            opaque=0x12,
        ),
    ]
    server = [
        message(magic=0x81, opcode=0x1F, value=b"\x00\x06\x00\x0b", opaque=1),
        message(magic=0x81, opcode=0x50, opaque=2),
        message(
            magic=0x81,
            opcode=0x89,
            opaque=3,
            specific=1,
            value=b'{"error":{"context":"%s"}}' % markup.replace(b'"', b'\\"'),
        ),
        message(magic=0x81, opcode=0x5E, opaque=4, specific=4, value=markup),
        message(magic=0x81, opcode=0x53, opaque=0x11, value=struct.pack(">QQ", 5, 0)),
        message(magic=0x81, opcode=0x53, opaque=0x12, specific=0x23, value=struct.pack(">Q", 4)),
        message(opcode=0x56, extras=struct.pack(">QQI", 0, 9, 1), specific=7, opaque=0x11),
        mutation(3, key=markup, value=b'{"a":"%s"}' % markup.replace(b'"', b'\\"')),
        mutation(2, key=markup, value=markup),
        message(opcode=0x55, extras=struct.pack(">I", 2), specific=7, opaque=0x11),
    ]
    return capture(path, client=b"".join(client), server=b"".join(server))
