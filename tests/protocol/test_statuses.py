"""Status codes: names, meanings, and which of them leave the command's own body."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.statuses import SUCCESS_CLASS, Status, status_meaning, status_name
from tests.catalogue import each


def test_the_success_class_is_that_of_the_reference() -> None:
    assert sorted(SUCCESS_CLASS) == [0x00, 0x21, 0x23, 0xA6, 0xA7, 0xCC, 0xCD, 0xD3]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x00, "success"),
        (0x01, "key_enoent"),
        (0x07, "not_my_vbucket"),
        (0x0A, "dcp_stream_not_found"),
        (0x0B, "opaque_no_match"),
        (0x22, "erange"),
        (0x23, "rollback"),
        (0x8D, "dcp_stream_id_invalid"),
        (0xD8, "subdoc_field_not_binary_value"),
        (0x1234, "status_0x1234"),
    ],
)
def test_a_status_has_the_name_of_the_reference(code: int, name: str) -> None:
    assert status_name(code) == name


@each("status", Status)
def test_every_status_has_a_meaning(status: Status) -> None:
    assert status_meaning(status) == status.meaning != ""


@pytest.mark.parametrize("code", [0xFF00, 0xFFFF])
def test_the_last_256_are_reserved_for_applications(code: int) -> None:
    assert status_meaning(code) == "Reserved for applications and proxies"


def test_an_unknown_status_says_so() -> None:
    assert status_meaning(0x1234) == "Not a known status"
