"""Control keys: what a consumer may set."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.control_keys import CONTROL_KEYS, ControlKey, control_key
from tests.catalogue import each

DECODING = [
    "enable_stream_id",
    "enable_expiry_opcode",
    "flatbuffers_system_events",
    "max_marker_version",
    "enable_sync_writes",
    "consumer_name",
    "enable_out_of_order_snapshots",
    "change_streams",
    "supports_hifi_MFU",
    "force_value_compression",
    "connection_buffer_size",
    "enable_noop",
    "set_noop_interval",
    "v7_dcp_status_codes",
    "enable_ext_metadata",
]


@pytest.mark.parametrize("key", DECODING)
def test_every_key_that_changes_how_messages_are_read_is_described(key: str) -> None:
    assert control_key(key) is not None


@each("entry", CONTROL_KEYS)
def test_every_key_says_values_default_release_and_effect(entry: ControlKey) -> None:
    assert all((entry.values, entry.default, entry.since, entry.doc))


def test_keys_are_unique() -> None:
    assert len({entry.key for entry in CONTROL_KEYS}) == len(CONTROL_KEYS) == 24


@pytest.mark.parametrize("key", ["enable_", "ENABLE_NOOP", ""])
def test_a_key_is_compared_whole(key: str) -> None:
    assert control_key(key) is None
