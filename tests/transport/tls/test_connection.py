"""What a connection is called in tables: its version and cipher suite, as far as they are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.utils import rdpcap, wrpcap

from dcpinspect.capture.open import open_capture
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tcp_openings import NEVER
from dcpinspect.transport.tls.connection import Closing, TlsConnection
from dcpinspect.transport.tls.handshake import Hello
from dcpinspect.transport.tls.keylog import KeyLog
from dcpinspect.transport.tls.suites import SUITES
from dcpinspect.transport.tls.tls_records import ALERT, TLS13
from tests import builders
from tests.tls.forged import Forged
from tests.tls.peers import Tls


def test_nothing_is_named_before_it_is_known() -> None:
    assert (TlsConnection().version_name, TlsConnection().suite_name) == ("", "")


def test_a_suite_that_cannot_be_read_has_its_number() -> None:
    about = TlsConnection(server=Hello(random=bytes(32), version=0x0302, suites=(0x0005,)))
    assert (about.version_name, about.suite_name) == ("TLS 1.1", "cipher suite 0x0005")


def test_a_suite_that_can_be_read_has_its_name() -> None:
    about = TlsConnection(version=TLS13, suite=SUITES[0x1301])
    assert (about.version_name, about.suite_name) == ("TLS 1.3", "TLS_AES_128_GCM_SHA256")


@pytest.mark.parametrize("tls", [Tls("1.2"), Tls("1.3")], ids=lambda tls: tls.version)
@pytest.mark.parametrize(
    ("close_notify", "first_fin", "closed_by"),
    [((0, 1), 1, "client"), ((1, 0), 0, "server"), ((0,), 1, "client"), ((), 1, "server")],
)
def test_who_says_close_notify_first_closes_the_connection(
    tls: Tls, close_notify: tuple[int, ...], first_fin: int, closed_by: str, tmp_path: Path
) -> None:
    forged = Forged(tmp_path, tls)
    forged.send(0, builders.message(opcode=0x5C))
    forged.send(1, builders.message(magic=0x81, opcode=0x5C))
    for direction in close_notify:
        forged.send(direction, b"\1\0", kind=ALERT)
    capture = forged.finish(first_fin)
    with Reading(open_capture(capture.path), keys=KeyLog([str(capture.keylog)])) as reading:
        list(reading)
        (link,) = reading.links
    assert ("client", "server")[link.closed_by] == closed_by
    # two FINs and an acknowledgement are last
    assert (link.closed_frame < reading.engine.transport.packets - 2) == bool(close_notify)


@pytest.mark.parametrize(("packets", "acked"), [(11, (NEVER, NEVER)), (12, (NEVER, 0))])
def test_what_was_acknowledged_is_known_where_everything_was(
    packets: int, acked: tuple[int, int], tmp_path: Path
) -> None:
    forged = Forged(tmp_path, Tls("1.3"))
    forged.send(0, builders.message(opcode=0x5C))
    forged.send(1, builders.message(magic=0x81, opcode=0x5C))
    capture = forged.finish()
    wrpcap(str(capture.path), rdpcap(str(capture.path))[:packets])  # 12: the answer, 13: its ACK
    with Reading(open_capture(capture.path), keys=KeyLog([str(capture.keylog)])) as reading:
        list(reading)
        (link,) = reading.links
    assert link.acked == acked


def test_a_close_notify_that_answers_a_fin_closes_nothing() -> None:
    about = TlsConnection()
    about.records[0].close = close = Closing(12, 13, 0, 14)
    assert (about.closed(11), about.closed(12)) == (None, (0, close))
