"""What servers have since when, and what a connection shows of the version of its server."""

from __future__ import annotations

import pytest

from dcpinspect.protocol import versions
from dcpinspect.protocol.versions import (
    Versions,
    named_version,
    possible_versions,
    versions_by_markers,
)

ANY = Versions()


@pytest.mark.parametrize(
    ("text", "least", "below"),
    [
        ("6.6.5-10080-enterprise", (6, 6, 5), (6, 6, 6)),
        ("8.5", (8, 5), (8, 6)),
        ("unknown", (0,), ANY.below),
    ],
)
def test_a_version_is_what_its_server_tells(
    text: str, least: tuple[int, ...], below: tuple[int, ...]
) -> None:
    assert named_version(text) == (least, below)
    assert possible_versions(text, [], None, []) == (least, below)


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("6.0.5", (False, False)),
        ("6.5.0", (True, False)),
        ("6.6.5", (True, False)),
        ("7.0.0", (True, True)),
        ("", (None, None)),
    ],
)
def test_what_a_server_of_a_version_has(text: str, has: tuple[bool | None, bool | None]) -> None:
    known = possible_versions(text, [], None, [])
    assert (known.has(versions.SYNC_WRITES), known.has(versions.SEQNO_ADVANCED)) == has


def test_a_setting_is_known_since_the_version_of_its_table() -> None:
    assert [named_version(text).has("v7_dcp_status_codes") for text in ("6.6", "7.0", "")] == [
        False,
        True,
        None,
    ]
    assert named_version("8.0").has("no_such_setting") is None


@pytest.mark.parametrize(
    ("asked", "granted", "found"),
    [
        (["Collections"], [], ((0,), (7, 0))),
        (["Collections", "SyncReplication"], ["XATTR"], ((0,), (6, 5))),
        (["Collections"], ["Collections"], ((6, 5), ANY.below)),
        ([], ["SubdocBinaryXattr"], ((8, 0), ANY.below)),
        (["Collections"], None, ANY),
    ],
)
def test_features_tell_versions(
    asked: list[str], granted: list[str] | None, found: tuple[object, object]
) -> None:
    assert possible_versions(None, asked, granted, []) == found


@pytest.mark.parametrize(
    ("key", "value", "status", "found"),
    [
        ("enable_stream_id", "true", "success", ((6, 5), ANY.below)),
        ("v7_dcp_status_codes", "true", "einval", ((0,), (7, 0))),
        ("v7_dcp_status_codes", "yes", "einval", ANY),  # perhaps only the value is not known
        ("max_marker_version", "2.2", "not_supported", ANY),
        ("v7_dcp_status_codes", "true", None, ANY),
        ("no_such_setting", "true", "einval", ANY),
    ],
)
def test_answers_to_settings_tell_versions(
    key: str, value: str, status: str | None, found: tuple[object, object]
) -> None:
    assert possible_versions(None, [], None, [(key, value, status)]) == found


def test_markers_tell_versions() -> None:
    assert versions_by_markers(["v1"]) == ANY
    assert versions_by_markers(["v1", "v2.0"]).least == (6, 5)
    assert versions_by_markers(["v2.2", "v2.0"]).least == (8, 0)


def test_what_contradicts_itself_tells_nothing() -> None:
    """As on both sides of an upgrade, or behind a proxy for several servers."""
    assert named_version("6.6.5").narrowed([versions_by_markers(["v2.2"])]) == ANY
