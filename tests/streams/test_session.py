"""Texts that peers say of themselves."""

from __future__ import annotations

import pytest

from tests.streams.told import Told, opened, tables

UUID = "cd613e30-d8f1-4adf-91b7-584a2265b1f5"


def test_a_name_of_zeros_is_one_that_was_redacted_in_a_file_of_packets() -> None:
    talk = Told("x")
    talk.ask("hello", key=bytes(9))
    talk.ask("select_bucket", key=bytes(1))
    (found,) = tables(talk).connections
    assert (found["agent"], found["bucket"]) == ("[9 bytes redacted]", "[1 byte redacted]")


def test_names_that_are_no_text_are_escaped() -> None:
    talk = Told("x")
    talk.ask("hello", key=b"\xffapp")
    assert tables(talk).connections[0]["agent"] == "\\xffapp"
    talk = Told("x")
    talk.ask("hello", key=rb'{"a":"half \ud800"}')
    assert tables(talk).connections[0]["agent"] == r'{"a":"half \ud800"}'


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("service:one", "service"),
        ("service", "service"),
        ('{"a":"service/1 linux","i":"AAAA/1"}', "service/1 linux"),
        ('{"i":"AAAA/1"}', "AAAA/1"),
        ('{"a":7}', '{"a":7}'),
        ('{"a":"cut', '{"a"'),
        (f"orders_{UUID}", "orders"),  # go-dcp
        (f"dcp-java-{UUID}", "dcp-java"),
        (f"sync_gateway-db1-{UUID.upper()}", "sync_gateway-db1"),
        (f"eventing:{UUID}_{UUID}", "eventing"),
        (UUID, UUID),
        (f"_{UUID}", f"_{UUID}"),
        (f"orders_{UUID[:-1]}", f"orders_{UUID[:-1]}"),
        (f"orders{UUID}", f"orders{UUID}"),
        (f"orders_{UUID}-0", f"orders_{UUID}-0"),
    ],
)
def test_a_client_is_known_by_what_its_names_have_in_common(name: str, service: str) -> None:
    talk = opened(name)
    talk.stream(7)
    assert tables(talk).tables.seen.clients == {1: f"10.0.0.1 {service}"}
