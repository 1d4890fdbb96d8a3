"""What a connection is called in tables: its version and cipher suite, as far as they are known."""

from __future__ import annotations

from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.handshake import Hello
from dcpinspect.transport.tls.suites import SUITES
from dcpinspect.transport.tls.tls_records import TLS13


def test_nothing_is_named_before_it_is_known() -> None:
    assert (TlsConnection().version_name, TlsConnection().suite_name) == ("", "")


def test_a_suite_that_cannot_be_read_has_its_number() -> None:
    about = TlsConnection(server=Hello(random=bytes(32), version=0x0302, suites=(0x0005,)))
    assert (about.version_name, about.suite_name) == ("TLS 1.1", "cipher suite 0x0005")


def test_a_suite_that_can_be_read_has_its_name() -> None:
    about = TlsConnection(version=TLS13, suite=SUITES[0x1301])
    assert (about.version_name, about.suite_name) == ("TLS 1.3", "TLS_AES_128_GCM_SHA256")
