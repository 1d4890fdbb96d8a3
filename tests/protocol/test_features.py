"""HELLO features by number."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.features import COLLECTIONS, FEATURES, Feature, feature, feature_name
from tests.catalogue import each


def test_the_features_are_numbered_without_a_gap() -> None:
    assert [entry.code for entry in FEATURES] == list(range(1, 0x27))


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x06, "XATTR"),
        (0x0A, "SNAPPY"),
        (0x12, "Collections"),
        (0x13, "SnappyEverywhere"),
        (0x1234, "feature_0x1234"),
    ],
)
def test_a_feature_has_the_name_of_the_reference(code: int, name: str) -> None:
    assert feature_name(code) == name


def test_collections_is_0x12() -> None:
    assert COLLECTIONS == 0x12


def test_what_a_feature_requires_is_a_feature() -> None:
    names = {entry.name for entry in FEATURES}
    assert {name for entry in FEATURES for name in entry.requires} <= names


@each("entry", FEATURES)
def test_every_feature_has_a_known_effect_and_a_line_of_text(entry: Feature) -> None:
    found = feature(entry.code)
    assert found is not None
    assert (found.effect in ("wire", "behaviour", "info", "dead"), bool(found.doc)) == (True, True)


def test_an_unknown_feature_is_none() -> None:
    assert feature(0x1234) is None
