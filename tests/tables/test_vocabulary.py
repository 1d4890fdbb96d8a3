"""The words of a column are all that it can hold."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.protocol.statuses import status_name
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.schema import COLUMNS
from dcpinspect.tables.vocabulary import vocabulary

SAMPLES = Path(__file__).parents[2] / "sample_captures"
WORDY = [column for column in COLUMNS if vocabulary(column.name) is not None]


@cache
def held() -> dict[str, set[Any]]:
    """Every word that the sample captures have in columns of words."""
    words: dict[str, set[Any]] = {column.name: set() for column in WORDY}
    for path in SAMPLES.glob("*.pcap*"):
        if path.stat().st_size < 500_000:
            with Reading([str(path)]) as reading:
                for batch in reading:
                    for name, values in (
                        record_batch(batch, np.arange(len(batch)), list(words)).to_pydict().items()
                    ):
                        for value in values:
                            words[name] |= (
                                set(value) if isinstance(value, list) else {value} - {None}
                            )
    return words


@pytest.mark.parametrize("column", WORDY, ids=lambda column: column.name)
def test_columns_of_captures_hold_known_words(column: Any) -> None:
    words = vocabulary(column.name)
    assert words is not None
    assert {word for word in held()[column.name] if word not in words} == set()
    assert len(set(words.words)) == len(words.words)


def test_the_samples_do_hold_words() -> None:
    assert {name for name, words in held().items() if not words} <= {"end_reason"}


def test_every_number_of_an_opcode_and_a_status_has_a_word() -> None:
    names, statuses = vocabulary("name"), vocabulary("status_name")
    assert names is not None
    assert statuses is not None
    assert all(
        opcode_name(code, server=server) in names for code in range(256) for server in (False, True)
    )
    assert all(status_name(code) in statuses for code in range(65_536))


@pytest.mark.parametrize(
    ("column", "word"), [("flags", "0x80000000"), ("datatype", "0x08"), ("state", "unknown (9)")]
)
def test_unnamed_numbers_are_words(column: str, word: str) -> None:
    assert word in (vocabulary(column) or ())


@pytest.mark.parametrize(
    ("column", "word"),
    [("flags", "0x3"), ("state", "unknown"), ("name", "opcode_0x157"), ("side", "")],
)
def test_others_are_none(column: str, word: str) -> None:
    assert word not in (vocabulary(column) or (word,))


@pytest.mark.parametrize("column", ["key", "cas", "vbucket", "time", "client", "key_bytes"])
def test_columns_of_anything_have_no_vocabulary(column: str) -> None:
    assert vocabulary(column) is None
