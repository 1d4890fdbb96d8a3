"""The kernel's two forms do the same, however the messages are cut into calls."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.streams import tracker
from dcpinspect.streams.state import _GROWING, ReadingState
from tests.catalogue import first_of
from tests.encode import encode
from tests.peers.script import Stream
from tests.streams.told import Seen, Told, opened, packets, tables

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def babble(seed: int) -> list[Told]:
    """Two connections that say anything in any order, with seqnos near every border."""
    rng = random.Random(seed)
    talks = []
    seqnos = [0, 1, 2, 3, 5, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
    for port in (50_000, 50_001):
        talk = opened(f"babble:{port}", port=port)
        streams = [Stream(talk, vbucket, 5 + vbucket) for vbucket in range(3)]
        for _ in range(150):
            stream = rng.choice(streams)
            stream.opaque = rng.choice((stream.opaque, stream.opaque, 5, 9))
            low, high = sorted(rng.sample(seqnos, 2))
            say = rng.randrange(16)
            if say == 0:
                talk.stream_request(
                    stream.vbucket,
                    stream.opaque,
                    start=low,
                    end=high,
                    snapshot=(low, high),
                    flags=rng.choice(([], ["from-latest"])),
                )
            elif say == 1:
                talk.stream_answer(
                    stream, rollback=rng.choice((None, low)), status=rng.choice((0, 7))
                )
            elif say in (2, 3):
                stream.snapshot(
                    low,
                    high,
                    *rng.choice((["memory"], ["disk", "checkpoint"], ["memory", "history"], [])),
                )
            elif say == 4:
                stream.send("dcp_snapshot_marker", generation="upr")
            elif say == 5:
                stream.oso(rng.choice(("start", "end")))
            elif say == 6:
                stream.end(rng.choice(("ok", "closed", "too-slow")))
            elif say == 7:
                stream.close(status=rng.choice((0, 1)))
            elif say == 8:
                stream.seqno_advanced(rng.choice(seqnos))
            elif say == 9:
                with talk.lost():
                    stream.mutation(1, "k")
            elif say == 10:
                (stream.commit if rng.randrange(2) else stream.abort)(low, high, "k")
            elif say == 12:
                what = rng.choice(("begin-collection", "end-collection"))
                stream.system_event(
                    rng.choice(seqnos),
                    what,
                    "c",
                    manifest_uid=low,
                    collection_id=rng.choice((8, 9)),
                )
            elif say == 13:
                stream.seqno_acknowledged(low)
            elif say == 14:
                stream.send(
                    "dcp_prepare",
                    collection=0,
                    key="k",
                    by_seqno=rng.choice(seqnos),
                    rev_seqno=1,
                    durability_level="majority",
                )
            else:
                collection, cas = rng.choice((0, 8, 9)), rng.choice(seqnos)
                stream.send(
                    "dcp_mutation",
                    collection=collection,
                    key="k",
                    by_seqno=rng.choice(seqnos),
                    rev_seqno=1,
                    cas=cas,
                )
        talks.append(talk)
    return talks


SEEDS = [
    *range(3),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6)),
    *first_of(range(6, 12), 0),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_nonsense_is_never_an_exception_and_both_forms_agree(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = packets(*babble(seed))
    found = {}
    for form in ("interpreted", "compiled"):
        monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", form == "interpreted")
        seen = Seen(captured)
        found[form] = (
            seen.everything(),
            [table.as_integers().tolist() for table in seen.tracker.state.known_tables],
        )
    assert found["interpreted"] == found["compiled"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_batches_do_not_matter(seed: int) -> None:
    captured = packets(*babble(seed))
    whole = Seen(captured).everything()
    rng = random.Random(seed)
    for sizes in ([1] * len(captured), [rng.randrange(1, 40) for _ in captured]):
        assert Seen(captured, sizes).everything() == whole


def test_tables_that_are_too_small_grow_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = packets(*babble(99))
    whole = Seen(captured).everything()

    class Small(ReadingState):
        def __init__(self) -> None:
            super().__init__()
            for name in _GROWING:
                setattr(self, name, getattr(self, name)[:1])
            self.slots = np.full(2, -1, np.int64)

    monkeypatch.setattr(tracker, "ReadingState", Small)
    assert Seen(captured).everything() == whole


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.pcap")), ids=lambda path: path.stem)
def test_samples_give_the_same_tables_in_both_forms(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for form in ("interpreted", "compiled"):
        monkeypatch.setattr("dcpinspect.kernels.kernel.IS_INTERPRETED", form == "interpreted")
        with Reading([str(path)], track=True) as reading:
            list(reading)
            found.append({name: table.records() for name, table in reading.tables.by_name.items()})
    assert found[0] == found[1]


def test_a_stream_that_began_before_the_capture_may_have_been_closed_before_it() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    talk.begin()
    stream.mutation(1, "a")
    talk.stream(7, start=1)
    assert tables(talk).anomalies == []


@pytest.mark.parametrize(
    ("value", "causes"), [("", ["capture-loss", "deduplicated"]), ("x" * 33, ["capture-loss"])]
)
def test_a_hole_too_small_for_a_control_leaves_known_what_was_never_asked_for(
    value: str, causes: list[str]
) -> None:
    talk = opened()
    with talk.lost():
        talk.send("client", encode("noop", value=value.encode()))
    talk.send("client", encode("noop"))
    stream = talk.stream(7)
    stream.snapshot(0, 9, "disk")
    stream.mutation(1, "a")
    with talk.lost():
        stream.mutation(2, "b")
    stream.mutation(5, "e")
    stream.mutation(9, "i")
    assert [gap["cause"] for gap in tables(talk).gaps] == causes
