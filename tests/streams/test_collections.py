"""Collections and scopes by what system events and manifests tell of them."""

from __future__ import annotations

import json

from dcpinspect.streams.collections import Collection, Manifest, named_collections
from dcpinspect.streams.conversation import Conversation
from tests.peers.script import Send, Stream
from tests.streams.told import Told, opened, tables
from tests.tables.build import batch


def manifest(talk: Told, connection: int = 1) -> Manifest:
    return tables(talk).tracker.conversation.session_of(connection).manifest


def streaming() -> tuple[Told, Stream]:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 99, "memory")
    return talk, stream


def test_collections_come_are_changed_and_go() -> None:
    talk, stream = streaming()
    stream.system_event(1, "create-scope", "shop", manifest_uid=2, scope_id=8)
    stream.system_event(
        2, "begin-collection", "orders", manifest_uid=3, scope_id=8, collection_id=9
    )
    stream.system_event(
        3,
        "begin-collection",
        "users",
        version="v1",
        manifest_uid=4,
        scope_id=8,
        collection_id=10,
        max_ttl=60,
    )
    stream.system_event(4, "end-collection", manifest_uid=5, collection_id=10)
    stream.system_event(5, "end-collection", manifest_uid=6, collection_id=11)
    found = manifest(talk)
    assert (found.uid, found.scopes) == (6, {8: "shop"})
    assert found.collections == {
        9: Collection("orders", 8),
        10: Collection("users", 8, has_ended=True),
        11: Collection(None, 0, has_ended=True),
    }


def test_flatbuffers_tell_of_history() -> None:
    talk, stream = streaming()
    for seqno, history in ((1, 1), (2, 0)):
        stream.system_event(
            seqno,
            "begin-collection",
            f"c{seqno}",
            version="v2",
            manifest_uid=seqno,
            scope_id=0,
            collection_id=8 + seqno,
            history=history,
        )
    found = manifest(talk)
    assert [one.keeps_history for one in found.collections.values()] == [True, False]
    assert found.lacks_history
    stream.system_event(
        3,
        "modify-collection",
        "c2",
        version="v2",
        manifest_uid=3,
        scope_id=0,
        collection_id=10,
        history=1,
    )
    assert not manifest(talk).lacks_history


def test_a_manifest_that_was_asked_for() -> None:
    talk = opened()
    scopes = [
        {
            "name": "_default",
            "uid": "0",
            "collections": [{"name": "_default", "uid": "0", "history": False}],
        },
        {
            "name": "shop",
            "uid": "1f",
            "collections": [
                {"name": "orders", "uid": "2a", "maxTTL": 5},
                {"name": "?", "uid": "zz"},
                3,
            ],
        },
        {"name": "no uid"},
        7,
    ]
    talk.ask(
        "collections_get_manifest",
        {"value": json.dumps({"uid": "c3", "scopes": scopes}), "datatype": 1},
    )
    found = manifest(talk)
    assert (found.uid, found.scopes) == (0xC3, {0: "_default", 0x1F: "shop"})
    assert found.collections == {
        0: Collection("_default", 0, keeps_history=False),
        0x2A: Collection("orders", 0x1F),
    }


def test_answers_that_are_no_manifest_are_left_alone() -> None:
    talk = opened()
    for value in (
        "",
        "[]",
        "{",
        '{"uid": 5, "scopes": {}}',
        '{"scopes": [{"uid": "0", "name": 5, "collections": [{"uid": "1"}]}]}',
    ):
        talk.ask("collections_get_manifest", {"value": value})
    assert manifest(talk) == Manifest()


def test_many_vbuckets_telling_the_same_and_collections_without_end_are_bounded() -> None:
    conversation = Conversation()
    talk = Told("x")
    stream = Stream(talk, 7, 1)
    for seqno in range(9000):
        stream.system_event(
            seqno,
            "begin-collection",
            "c",
            manifest_uid=1,
            scope_id=0,
            collection_id=8 + seqno % 6000,
        )
    conversation.feed(batch(*(event.data for event in talk.events if isinstance(event, Send))))
    found = conversation.session_of(1).manifest
    assert len(found.collections) == 4096
    assert found.is_news(b"new") is True
    assert found.is_news(b"new") is False


def test_what_a_request_names() -> None:
    assert named_collections(None) is None
    assert named_collections({"scope": "8"}) is None
    assert named_collections({"collections": "8"}) is None
    assert named_collections(
        {"collections": ["8", "1F", 8, None, "x", "-1", "1_0", "f" * 9, "f" * 5000]}
    ) == frozenset({8, 0x1F})


def history(*, told: bool, bucket: str = "") -> Told:
    talk = Told("cdc:1")
    talk.hello("test/1.0", "Collections")
    if bucket:
        talk.select_bucket(bucket)
    talk.open("cdc:1", "producer")
    stream = talk.stream(7)
    stream.snapshot(0, 1, "memory")
    stream.system_event(
        1,
        "begin-collection",
        "c",
        version="v2",
        manifest_uid=1,
        scope_id=0,
        collection_id=9,
        history=int(not told),
    )
    stream.snapshot(2, 9, "memory", "history")
    stream.mutation(2, "a")
    stream.mutation(9, "b")
    return talk


def test_a_gap_with_history_is_explained_where_a_collection_keeps_none() -> None:
    assert [gap["cause"] for gap in tables(history(told=False)).gaps] == ["unexplained"]
    assert [gap["cause"] for gap in tables(history(told=True)).gaps] == ["deduplicated"]


def test_what_one_connection_hears_of_a_bucket_is_so_on_others() -> None:
    one, other = history(told=True, bucket="shop"), history(told=False, bucket="shop")
    other.port = 50_001
    assert [gap["cause"] for gap in tables(one, other).gaps] == ["deduplicated"] * 2
    other = history(told=False, bucket="else")
    other.port = 50_001
    assert [gap["cause"] for gap in tables(one, other).gaps] == ["deduplicated", "unexplained"]
