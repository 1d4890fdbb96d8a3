from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.protocol.framed import (
    NOTHING,
    REASONS,
    Accounts,
    BriefAccounts,
    FramingAccount,
    joined,
)
from dcpinspect.protocol.framing import Framer
from tests import builders

SIZES = st.integers(0, 1 << 60)
accounts = st.builds(
    FramingAccount,
    messages=SIZES,
    unfinished=SIZES,
    reasons=st.dictionaries(st.sampled_from(REASONS), st.integers(1, 1 << 50)),
    first_hole=st.none() | SIZES,
    first_skipped=st.none() | SIZES,
    first_fault=st.none() | st.tuples(SIZES, st.binary(min_size=24, max_size=24)),
)


@given(st.dictionaries(st.integers(0, 500), accounts, max_size=20))
def test_accounts_come_back_as_they_were_put_in(given: dict[int, FramingAccount]) -> None:
    kept = Accounts()
    for number, account in given.items():
        account.skipped = sum(account.reasons.values())
        kept.keep(number, account)
    for number in range(510):
        expected = given.get(number, FramingAccount())
        found = kept.get(number)
        assert found == expected
        assert list(found.reasons) == list(expected.reasons)


def test_of_many_that_said_one_thing_accounts_come_back_too() -> None:
    kept = Accounts()
    one_of_each = BriefAccounts(
        *(
            np.array(numbers)
            for numbers in (
                [900, 2, 5, 7],
                [24, 0, 0, 0],
                [0, 9, 0, 0],
                [0, 0, 18, 30],
                [0, 0, 1, 2],
            )
        )
    )
    kept.put_all(one_of_each)
    kept.keep(5, FramingAccount(messages=3))  # goes on
    expected = {
        900: FramingAccount(messages=24),
        2: FramingAccount(unfinished=9),
        5: FramingAccount(messages=3),
        7: FramingAccount(skipped=30, reasons={REASONS[2]: 30}, first_skipped=0),
    }
    assert {number: kept.get(number) for number in expected} == expected
    assert [column.tolist() for column in kept.sizes(np.array([2, 3, 5, 7, 900, 5000]))] == [
        [0, 0, 3, 0, 24, 0],
        [0, 0, 0, 30, 0, 0],
        [0] * 6,
        [0] * 6,
        [9, 0, 0, 0, 0, 0],
        [False] * 6,
    ]
    kept.leave([7, 900])
    assert kept.get(7) == kept.get(900) == FramingAccount()
    assert [(whole.messages, whole.skipped) for whole in kept.left] == [(24, 0), (0, 30)]


def test_joined_messages_are_those_of_the_parts_one_after_the_other() -> None:
    messages = builders.mutations(30)
    parts = []
    for number, some in enumerate((messages[:10], messages[10:11], messages[11:])):
        data = b"".join(some)
        hole = ((40, 50),) if number == 1 else ()
        framed = Framer().feed(builders.chunk(data, packet=100 * number, holes=hole, is_start=True))
        assert framed is not None
        parts.append(framed)
    whole = joined(parts)
    assert [row.data for row in builders.rows_of(whole)] == [
        row.data for part in parts for row in builders.rows_of(part)
    ]
    assert [row.missing for row in builders.rows_of(whole)] == [
        row.missing for part in parts for row in builders.rows_of(part)
    ]
    assert whole.missing_row.tolist() == [10]
    assert np.array_equal(whole.release, np.concatenate([part.release for part in parts]))


def test_nothing_joined_is_nothing() -> None:
    assert joined([]) is NOTHING
    assert len(NOTHING.start) == len(NOTHING.data) == 0


def test_what_those_had_that_left_is_added_up() -> None:
    kept = Accounts()
    for number in range(6):
        kept.keep(
            number,
            FramingAccount(
                messages=10 + number, skipped=number, unfinished=1, reasons={REASONS[0]: number}
            ),
        )
    kept.leave([0, 1, 2, 900])
    assert [kept.get(number).messages for number in range(6)] == [0, 0, 0, 13, 14, 15]
    assert [(whole.messages, whole.skipped, whole.unfinished) for whole in kept.left] == [
        (22, 2, 2),
        (11, 1, 1),
    ]
