"""What the comparisons of the model refuse: each of them is shown tables in which one word is
wrong.
"""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

from tests.catalogue import each
from tests.model.blame import unfounded
from tests.model.claims import Claims
from tests.model.dice import Dice
from tests.model.expect import Tables
from tests.model.judge import conversation, damaged, truth
from tests.model.play import play
from tests.model.reading import Capture, Read, read
from tests.model.tape import Said

SEED = 12


@cache
def lossy() -> tuple[Tables, dict[Said, int], Capture, Read]:
    dice = Dice(SEED)
    play(dice)
    capture = conversation("lossy", dice.choices)
    heard = read(capture).heard
    left = damaged(capture, "lossy", random.Random(SEED * 1000))
    return truth(capture, heard), {one.said: one.row for one in heard}, left, read(left)


def refused(table: str, **words: Any) -> list[list[str]]:
    """What is said to a reading that has these words in one record of a table, for each record that
    does not have them.
    """
    true, rows, left, found = lossy()
    out = []
    for place, record in enumerate(found.tables[table]):
        if any(record[key] != word for key, word in words.items()):
            tables = deepcopy(found.tables)
            tables[table][place] |= words
            out.append(Claims(true, rows, left, replace(found, tables=tables)).wrong)
    return out


def test_what_was_read_is_not_refused() -> None:
    true, rows, left, found = lossy()
    assert Claims(true, rows, left, found).wrong == []
    assert unfounded(left.tape, found) == []


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("streams", {"requested_start": 10**9}),
    ("streams", {"requested_end": 3}),
    ("streams", {"snapshot_end": 10**9}),
    ("streams", {"vbucket_uuid": "0x0000000000000bad"}),
    ("streams", {"request_flags": ["takeover"]}),
    ("streams", {"filter": {"collections": ["dead"]}}),
    ("streams", {"answer": "rollback", "rollback_seqno": 10**9}),
    ("streams", {"status": "enomem"}),
    ("streams", {"failover_log": [{"uuid": "0x0000000000000bad", "seqno": 0}]}),
    ("streams", {"items": 10**6}),
    ("streams", {"last_seqno": 10**9}),
    ("streams", {"first_seqno": 10**9}),
    ("snapshots", {"state": "complete-oso"}),
    ("snapshots", {"convention": "irregular"}),
    ("snapshots", {"type": "oso"}),
    ("snapshots", {"start_seqno": 10**9}),
    ("snapshots", {"end_seqno": 10**9}),
    ("snapshots", {"layout": "v2.1"}),
    ("snapshots", {"items": 10**6}),
    ("gaps", {"cause": "rollback"}),
    ("gaps", {"cause": "unexplained"}),
    ("gaps", {"after_seqno": 10**9, "before_seqno": 10**9 + 1}),
    ("connections", {"client": "10.9.9.9:1"}),
    ("connections", {"name": "somebody else"}),
    ("connections", {"agent": "somebody else"}),
    ("connections", {"role": "none"}),
    ("connections", {"bucket": "another"}),
    ("connections", {"features": ["UnorderedExecution"]}),
    ("connections", {"controls": {"no_such_control": {"value": "true", "status": "success"}}}),
    ("connections", {"noop_interval_s": 7777.0}),
    ("connections", {"verdict": "refused"}),
]


@each(("table", "words"), WRONG)
def test_a_wrong_word_is_refused(table: str, words: dict[str, Any]) -> None:
    complaints = refused(table, **words)
    assert complaints
    # Of a connection that the reading cannot tell from another nothing is compared.
    assert sum(bool(one) for one in complaints) > len(complaints) // 2, complaints


def test_a_finding_that_no_message_accounts_for_is_refused() -> None:
    _, _, left, found = lossy()
    worse = [replace(one, severity="error") for one in found.findings if one.severity == "note"]
    assert worse
    assert len(unfounded(left.tape, replace(found, findings=worse))) > 0
    assert (
        unfounded(
            left.tape,
            replace(found, findings=[one for one in found.findings if one.severity != "note"]),
        )
        == []
    )
