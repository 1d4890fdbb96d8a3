"""What collections are called in messages, from which message on, on which connection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dcpinspect
from dcpinspect.reading.engine import Engine
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.messages import MessageBatch
from tests.damage import PORT, batches
from tests.encode import encode_snappy
from tests.streams.told import Told, capture, packets, tables

COLUMNS = ("row", "connection", "name", "collection_id", "collection", "key")
MANIFEST = {
    "uid": "3",
    "scopes": [
        {"name": "_default", "uid": "0", "collections": [{"name": "_default", "uid": "0"}]},
        {
            "name": "produce",
            "uid": "8",
            "collections": [{"name": "fruit", "uid": "8"}, {"name": "leek", "uid": "1f"}],
        },
    ],
}


def messages(*talks: Told, sizes: Sequence[int] = ()) -> list[dict[str, Any]]:
    """The rows of a reading whose packets come in batches of these sizes."""
    engine = Engine(["told.pcap"], ports=(PORT,))
    made = [*(engine.feed(part) for part in batches(packets(*talks), sizes)), engine.finish()]
    tables = [
        record_batch(batch, np.arange(len(batch)), COLUMNS).to_pylist()
        for batch in made
        if batch is not None
    ]
    return [row for table in tables for row in table]


def named(*talks: Told, sizes: Sequence[int] = ()) -> list[tuple[str, str]]:
    """Key and collection of the mutations."""
    return [
        (row["key"], row["collection"])
        for row in messages(*talks, sizes=sizes)
        if row["name"] == "dcp_mutation"
    ]


def streaming(*, bucket: str = "", port: int = 50_000) -> Told:
    talk = Told("cdc:1", port=port)
    talk.hello("test/1.0", "JSON", "Collections")
    if bucket:
        talk.select_bucket(bucket)
    talk.open("cdc:1", "producer")
    return talk


def ask_for_manifest(talk: Told, manifest: object = MANIFEST, **parts: Any) -> None:
    talk.ask("collections_get_manifest", {"value": json.dumps(manifest), "datatype": 1, **parts})


def test_system_events_name_what_comes_behind_them() -> None:
    talk = streaming()
    stream = talk.stream(7)
    stream.snapshot(0, 99, "memory")
    stream.mutation(1, "early", collection=9)
    stream.system_event(2, "begin-collection", "fruit", manifest_uid=3, scope_id=8, collection_id=9)
    stream.mutation(3, "no scope", collection=9)
    stream.system_event(4, "create-scope", "produce", manifest_uid=2, scope_id=8)
    stream.mutation(5, "both", collection=9)
    stream.mutation(6, "default")
    stream.mutation(7, "other", collection=10)
    stream.system_event(8, "end-collection", manifest_uid=5, collection_id=9)
    stream.mutation(9, "late", collection=9)
    assert named(talk) == [
        ("early", "0x9"),
        ("no scope", "0x8.fruit"),
        ("both", "produce.fruit"),
        ("default", "_default._default"),
        ("other", "0xa"),
        ("late", "produce.fruit"),
    ]


@pytest.mark.parametrize("version", ["v0", "v1", "v2"])
def test_system_events_are_not_explained_field_by_field_for_their_names(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(MessageBatch, "annotate")
    talk = streaming()
    stream = talk.stream(7)
    stream.snapshot(0, 99, "memory")
    stream.system_event(
        1, "begin-collection", "fruit", version=version, manifest_uid=3, scope_id=0, collection_id=9
    )
    stream.mutation(2, "k", collection=9)
    assert named(talk) == [("k", "_default.fruit")]
    assert tables(talk).tracker.conversation.session_of(1).manifest.collections[9].name == "fruit"


def test_a_system_event_has_the_name_that_it_tells() -> None:
    talk = streaming()
    stream = talk.stream(7)
    stream.system_event(1, "create-scope", "produce", version="v2", manifest_uid=2, scope_id=8)
    stream.system_event(
        2, "begin-collection", "fruit", version="v2", manifest_uid=3, scope_id=8, collection_id=9
    )
    stream.system_event(
        3, "end-collection", version="v2", manifest_uid=4, scope_id=8, collection_id=9
    )
    told = [row["collection"] for row in messages(talk) if row["name"] == "dcp_system_event"]
    assert told == [None, "produce.fruit", "produce.fruit"]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_manifest_names_collections_by_hexadecimal_ids(*, is_compressed: bool) -> None:
    talk = streaming()
    if is_compressed:
        ask_for_manifest(talk, value=encode_snappy(json.dumps(MANIFEST).encode()), datatype=3)
    else:
        ask_for_manifest(talk)
    stream = talk.stream(7)
    stream.mutation(1, "a", collection=8)
    stream.mutation(2, "b", collection=0x1F)
    assert named(talk) == [("a", "produce.fruit"), ("b", "produce.leek")]


def test_a_manifest_that_was_set_names_them_when_it_is_accepted() -> None:
    talk = streaming()
    talk.ask(
        "collections_set_manifest", status=4, value=json.dumps(MANIFEST).replace("fruit", "refused")
    )
    talk.ask("collections_set_manifest", value=json.dumps(MANIFEST))
    talk.stream(7).mutation(1, "a", collection=8)
    assert named(talk) == [("a", "produce.fruit")]


@pytest.mark.parametrize("place", ["key", "value"])
def test_ids_that_were_asked_for_by_name_have_it(place: str) -> None:
    talk = streaming()
    asked: dict[str, Any] = {place: "produce.fruit"}
    talk.ask("collections_get_id", {"manifest_uid": 4, "collection_id": 8}, **asked)
    asked[place] = "without a scope"
    talk.ask("collections_get_id", {"manifest_uid": 4, "collection_id": 9}, **asked)
    asked[place] = "produce.refused"
    talk.ask("collections_get_id", status=0x88, **asked)
    stream = talk.stream(7)
    stream.mutation(1, "a", collection=8)
    stream.system_event(2, "begin-collection", "fruit", manifest_uid=3, scope_id=8, collection_id=8)
    stream.system_event(3, "begin-collection", "leek", manifest_uid=3, scope_id=8, collection_id=10)
    stream.mutation(4, "b", collection=8)
    stream.mutation(5, "c", collection=10)
    stream.mutation(6, "d", collection=9)
    assert named(talk) == [
        ("a", "produce.fruit"),
        ("b", "produce.fruit"),
        ("c", "produce.leek"),
        ("d", "0x9"),
    ]


def test_a_scope_that_was_asked_for_by_name_has_it() -> None:
    talk = streaming()
    talk.ask("collections_get_scope_id", {"manifest_uid": 4, "scope_id": 8}, value="produce")
    stream = talk.stream(7)
    stream.system_event(2, "begin-collection", "fruit", manifest_uid=3, scope_id=8, collection_id=8)
    stream.mutation(3, "a", collection=8)
    assert named(talk) == [("a", "produce.fruit")]


def test_what_one_connection_is_told_of_a_bucket_is_so_on_others_of_that_bucket_and_server() -> (
    None
):
    told, same, other, none = (
        streaming(bucket="shop"),
        streaming(bucket="shop"),
        streaming(bucket="else"),
        streaming(),
    )
    elsewhere = streaming(bucket="shop")
    elsewhere.server = "node2"
    ask_for_manifest(told)
    for number, talk in enumerate((same, other, none, elsewhere)):
        talk.port = 50_001 + number
        talk.stream(7).mutation(1, f"{number}", collection=8)
    assert named(told, same, other, none, elsewhere) == [
        ("0", "produce.fruit"),
        ("1", "0x8"),
        ("2", "0x8"),
        ("3", "0x8"),
    ]


def test_another_bucket_on_the_same_connection_has_other_names() -> None:
    talk = streaming(bucket="shop")
    ask_for_manifest(talk)
    talk.stream(7).mutation(1, "a", collection=8)
    talk.select_bucket("else")
    talk.stream(8).mutation(1, "b", collection=8)
    talk.select_bucket("shop")
    talk.stream(9).mutation(1, "c", collection=8)
    assert named(talk) == [("a", "produce.fruit"), ("b", "0x8"), ("c", "produce.fruit")]


def test_streams_name_what_their_requests_name() -> None:
    talk, other = streaming(bucket="shop"), streaming(bucket="shop", port=50_001)
    talk.stream(1, value={"collections": ["8", "a", "0"]})
    talk.stream(2, value={"scope": "8"})
    talk.stream(3, value={"scope": "9"})
    talk.stream(4)
    other.stream(5, value={"collections": ["1f"]})
    ask_for_manifest(talk)
    told = {stream["vbucket"]: stream["collections"] for stream in tables(talk, other).streams}
    assert told == {
        1: "_default._default (0x0), produce.fruit (0x8), 0xa",
        2: "scope produce (0x8)",
        3: "scope 0x9",
        4: None,
        5: "produce.leek (0x1f)",
    }


def test_names_do_not_depend_on_how_packets_come() -> None:
    one, other = streaming(bucket="shop"), streaming(bucket="shop", port=50_001)
    for talk in (one, other):
        stream = talk.stream(7)
        for seqno in range(1, 40, 4):
            stream.mutation(seqno, f"a{seqno}", collection=8 + seqno // 8)
            stream.system_event(
                seqno + 1,
                "begin-collection",
                f"c{seqno}",
                manifest_uid=3,
                scope_id=8,
                collection_id=8 + seqno // 8,
            )
            stream.mutation(seqno + 2, f"b{seqno}", collection=8 + seqno // 8)
    whole = messages(one, other)
    assert len({row["collection"] for row in whole}) > 10
    for sizes in ([1] * 500, [7] * 100, [40, 1, 3] * 20):
        assert messages(one, other, sizes=sizes) == whole


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {"scopes": 7},
        {"scopes": [{"uid": "8", "name": 5, "collections": [{"uid": "8", "name": "x"}]}]},
        {
            "scopes": [
                {
                    "uid": "8",
                    "name": "s",
                    "collections": [{"uid": "8", "name": None}, {"uid": "zz", "name": "x"}, 4],
                }
            ]
        },
    ],
)
def test_answers_that_are_no_manifest_name_nothing(manifest: object) -> None:
    talk = streaming()
    ask_for_manifest(talk, manifest)
    talk.stream(7).mutation(1, "a", collection=8)
    assert named(talk) == [("a", "0x8")]


def test_a_recording_names_every_message_as_a_reading_does(tmp_path: Path) -> None:
    talk = streaming()
    stream = talk.stream(7)
    stream.mutation(1, "early", collection=8)
    ask_for_manifest(talk)
    stream.mutation(2, "late", collection=8)
    path = tmp_path / "told.pcap"
    path.write_bytes(capture(talk))
    with dcpinspect.open(path) as recording:
        rows = (
            recording.messages(columns=["row", "collection"], filter="name = 'dcp_mutation'")
            .read_all()
            .to_pylist()
        )
        told = [recording.annotate(row["row"]).to_dict()["collection"] for row in rows]
    assert [row["collection"] for row in rows] == told == ["0x8", "produce.fruit"]
