"""Events as records: the key that is shown of one, and what of it tells whether another is the
same.
"""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.streams.changes import Changes, Events, KeyStart, changes_of, key_text


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"", ""),
        (b"a", "a"),
        (b"k" * 32, "k" * 32),
        (b"k" * 33, "k" * 32 + "…"),
        ("\N{SNOWMAN}".encode(), "\N{SNOWMAN}"),
        (b"\xff", "\\xff"),
        (b"\0", "\0"),
    ],
)
def test_the_first_bytes_of_a_key_are_shown(key: bytes, shown: str) -> None:
    events = Events.zeros(2)
    events[1].key_size, events[1].key_start = len(key), KeyStart.of_bytes(key[:32].ljust(32, b"\0"))
    assert [key_text(event) for event in events] == ["", shown]


def test_a_change_has_of_an_event_what_its_fields_are_called() -> None:
    events = Events.of_integers(np.arange(40, dtype=np.int64).reshape(2, 20))
    changes = changes_of(events)
    assert changes.row.tolist() == events.place.row.tolist()
    for name in set(Changes.fields) - {"row"}:
        assert changes.array[name].tolist() == events.array[name].tolist()
