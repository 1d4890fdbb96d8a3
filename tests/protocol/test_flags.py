"""Flags and enumerations by their numbers, each as the reference lists it."""

from __future__ import annotations

import pytest

from dcpinspect.protocol import flags
from dcpinspect.protocol.fields import Bit
from dcpinspect.protocol.flags import (
    DURABILITY_LEVELS,
    ENDLESS,
    OPEN_FLAGS,
    OSO_FLAGS,
    SNAPSHOT_FLAGS,
    STREAM_END_REASONS,
    STREAM_FLAGS,
    SYSTEM_EVENTS,
    VBUCKET_STATES,
)

TABLES = {
    "open": (OPEN_FLAGS, [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200]),
    "stream": (STREAM_FLAGS, [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100]),
    "snapshot": (SNAPSHOT_FLAGS, [1, 2, 4, 8, 0x10, 0x20]),
    "oso": (OSO_FLAGS, [1, 2]),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_bit_of_the_reference_is_named_once(name: str) -> None:
    bits, masks = TABLES[name]
    assert [bit.mask for bit in bits] == masks
    assert len({bit.name for bit in bits}) == len(bits)


@pytest.mark.parametrize("name", TABLES)
def test_every_bit_is_explained(name: str) -> None:
    assert all(bit.doc for bit in TABLES[name][0])


@pytest.mark.parametrize(
    ("bits", "mask", "name"),
    [
        (SNAPSHOT_FLAGS, 0x01, "memory"),
        (SNAPSHOT_FLAGS, 0x02, "disk"),
        (SNAPSHOT_FLAGS, 0x10, "history"),
        (SNAPSHOT_FLAGS, 0x20, "may-duplicate-keys"),
        (STREAM_FLAGS, 0x01, "takeover"),
        (STREAM_FLAGS, 0x40, "from-latest"),
        (OPEN_FLAGS, 0x01, "producer"),
        (OPEN_FLAGS, 0x40, "no-value-with-underlying-datatype"),
    ],
)
def test_a_bit_has_the_name_of_the_reference(bits: tuple[Bit, ...], mask: int, name: str) -> None:
    assert next(bit.name for bit in bits if bit.mask == mask) == name


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            STREAM_END_REASONS,
            [
                "ok",
                "closed",
                "state-changed",
                "disconnected",
                "too-slow",
                "backfill-failed",
                "rollback",
                "filter-empty",
                "lost-privileges",
            ],
        ),
        (
            SYSTEM_EVENTS,
            [
                "begin-collection",
                "end-collection",
                "flush-collection",
                "create-scope",
                "drop-scope",
                "modify-collection",
            ],
        ),
    ],
)
def test_an_enumeration_from_0_has_the_words_of_the_reference(
    table: dict[int, str], words: list[str]
) -> None:
    assert table == dict(enumerate(words))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (VBUCKET_STATES, ["active", "replica", "pending", "dead"]),
        (DURABILITY_LEVELS, ["majority", "majority-and-persist-on-active", "persist-to-majority"]),
    ],
)
def test_an_enumeration_from_1_has_the_words_of_the_reference(
    table: dict[int, str], words: list[str]
) -> None:
    assert table == dict(enumerate(words, 1))


def test_the_greatest_seqno_means_no_end() -> None:
    assert ENDLESS == 2**64 - 1


@pytest.mark.parametrize(
    ("flag", "number"),
    [
        *(
            (flags.PRODUCER, 0x01),
            (flags.INCLUDE_XATTRS, 0x04),
            (flags.UNDERLYING_DATATYPE, 0x40),
            (flags.NO_VALUE, 0x48),
        ),
        *(
            (flags.SKIP_DELETES, 0x200),
            (flags.TAKEOVER, 0x01),
            (flags.TO_LATEST, 0x04),
            (flags.ACTIVE_ONLY, 0x10),
            (flags.STRICT, 0x20),
        ),
        *(
            (flags.FROM_LATEST, 0x40),
            (flags.TO_AN_END, 0x46),
            (flags.MEMORY, 0x01),
            (flags.DISK, 0x02),
            (flags.CHECKPOINT, 0x04),
        ),
        *(
            (flags.ACK, 0x08),
            (flags.HISTORY, 0x10),
            (flags.MAY_REPEAT, 0x20),
            (flags.OSO_START, 1),
            (flags.OSO_END, 2),
        ),
    ],
)
def test_a_flag_that_decides_has_the_number_of_the_reference(flag: int, number: int) -> None:
    assert flag == number
