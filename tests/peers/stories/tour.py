"""A healthy tour: every kind of message that a current connection may carry, and every generation
of it.

Seven connections, since some features exclude each other: an application's key-value connection, an
indexer with all that is new, a legacy backup over IPv6, an analytics service with stream-ids, a
search service with OSO snapshots, replication between nodes, and a node that takes over a cache.
"""

from __future__ import annotations

import itertools
from struct import pack
from typing import Any

from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from tests.encode import encode, encode_leb128, encode_parts
from tests.peers.script import (
    EPOCH,
    Conversation,
    Story,
    document,
    failover_entries,
    hlc,
    swapped,
    text,
)
from tests.peers.stories.world import (
    ARCHIVE,
    BUCKET,
    ERROR_MAP,
    FRUIT,
    MANIFEST,
    MARKET,
    VEGETABLE,
    cluster_config,
    login,
    order,
)

UUID = 0x7E57_0000_C0FF_EE01
OLDER = 0x7E57_0000_0000_0A11

_MODERN = (
    "TcpNoDelay",
    "XATTR",
    "XERROR",
    "SELECT_BUCKET",
    "SNAPPY",
    "JSON",
    "AltRequestSupport",
    "SyncReplication",
    "Collections",
)


def tour() -> Story:
    """All connections, one after the other: rows of one are not mixed with those of the next."""
    story = [application(), indexer(), backup(), analytics(), search(), replication(), takeover()]
    for before, talk in itertools.pairwise(story):
        talk.after = f"{before.name} ended"
    return story


def _duration(microseconds: int) -> tuple[int, bytes]:
    return 0, pack(">H", round((2 * microseconds) ** (1 / 1.74)))


def application() -> Conversation:
    """Key-value traffic of an application, with server durations, durable writes, sub-documents and
    a pushed cluster map.
    """
    talk = Conversation("application", writes=(1, 2))
    talk.hello(
        text({"a": "shop/2.1 (tour)", "i": "5F3A9C0E11D24B70/0000000000000001"}),
        *_MODERN,
        *(
            "MUTATION_SEQNO",
            "Duplex",
            "ClustermapChangeNotification",
            "UnorderedExecution",
            "Tracing",
            "SnappyEverywhere",
            "PreserveTtl",
        ),
        *("SubdocReplaceBodyWithXattr", "GetClusterConfigWithKnownVersion", "ReportUnitUsage"),
        granted=(
            *_MODERN,
            *(
                "MUTATION_SEQNO",
                "Duplex",
                "ClustermapChangeNotification",
                "Tracing",
                "SnappyEverywhere",
                "PreserveTtl",
            ),
            *("SubdocReplaceBodyWithXattr", "GetClusterConfigWithKnownVersion"),
        ),
    )
    talk.ask("get_error_map", {"value": ERROR_MAP, "datatype": 1}, version=2)
    talk.sasl_list()
    talk.sasl_scram("app")
    talk.select_bucket(BUCKET)
    config = cluster_config(41, "node1.example", "node2.example")
    talk.ask("get_cluster_config", {"value": config, "datatype": 1})
    talk.ask("get_cluster_config", {"value": b""}, epoch=1, revision=41)
    talk.ask("collections_get_manifest", {"value": text(MANIFEST), "datatype": 1})
    talk.ask(
        "collections_get_id", {"manifest_uid": 4, "collection_id": FRUIT}, value="market.fruit"
    )
    talk.ask("collections_get_scope_id", {"manifest_uid": 4, "scope_id": MARKET}, value="market")
    talk.ask("version", {"value": "8.0.0-3777-enterprise"})
    _documents(talk)
    _subdocuments(talk)
    _where_vbuckets_are(talk)
    pushed = encode(
        "clustermap_change_notification",
        server=True,
        epoch=1,
        revision=42,
        key=BUCKET,
        value=cluster_config(42, "node1.example", "node2.example", "node3.example"),
        datatype=1,
    )
    talk.send("server", pushed, waits=False)
    talk.ask("noop")
    talk.ask("quit")
    talk.close("server")
    return talk


def _documents(talk: Conversation) -> None:
    def stored(seqno: int, *frames: tuple[int, bytes]) -> dict[str, Any]:
        return {
            "generation": "mutation-seqno",
            "vbucket_uuid": UUID,
            "seqno": seqno,
            "cas": hlc(seqno),
            "frames": frames,
        }

    where: dict[str, Any] = {"vbucket": 417, "collection": FRUIT, "key": "apple"}
    value, datatype = document({"kind": "apple", "colour": "red"})
    packed, compressed = document(order(1, 40), snappy=True)
    talk.ask(
        "get",
        {"value": text({"error": {"ref": "9b1c"}}), "datatype": 1},
        status=Status.KEY_ENOENT,
        **where,
    )
    talk.ask(
        "set",
        stored(1, _duration(980)),
        item_flags=0x0200_0006,
        value=value,
        datatype=datatype,
        **where,
    )
    talk.ask(
        "get",
        {
            "item_flags": 0x0200_0006,
            "value": value,
            "datatype": datatype,
            "cas": hlc(1),
            "frames": [_duration(45)],
        },
        **where,
    )
    talk.ask(
        "getk",
        {
            "item_flags": 0x0200_0006,
            "key": b"\x08apple",
            "value": value,
            "datatype": datatype,
            "cas": hlc(1),
        },
        **where,
    )
    talk.ask("add", {}, status=Status.KEY_EEXISTS, value=value, datatype=datatype, **where)
    talk.ask(
        "replace",
        stored(2, _duration(350)),
        expiration=EPOCH + 3600,
        value=packed,
        datatype=compressed,
        cas=hlc(1),
        **where,
    )
    talk.ask("append", stored(3), vbucket=417, collection=FRUIT, key="note", value=b" and more")
    talk.ask("prepend", stored(4), vbucket=417, collection=FRUIT, key="note", value=b"more and ")
    talk.ask(
        "increment",
        stored(5) | {"counter": 100},
        vbucket=417,
        collection=0,
        key="visits",
        delta=1,
        initial=100,
    )
    talk.ask(
        "decrement",
        stored(6) | {"counter": 99},
        vbucket=417,
        collection=0,
        key="visits",
        delta=1,
        expiration=0xFFFF_FFFF,
    )
    talk.ask("touch", {"item_flags": 6, "cas": hlc(7)}, expiration=EPOCH + 7200, **where)
    talk.ask(
        "gat",
        {"item_flags": 6, "value": packed, "datatype": compressed, "cas": hlc(8)},
        expiration=EPOCH + 7200,
        **where,
    )
    talk.ask(
        "get_locked",
        {"item_flags": 6, "value": packed, "datatype": compressed, "cas": hlc(9)},
        lock_seconds=15,
        **where,
    )
    talk.ask("set", {}, status=Status.LOCKED, value=value, datatype=datatype, **where)
    talk.ask("unlock_key", cas=hlc(9), **where)
    # Two quiet writes are answered by silence, and by the answer to the noop behind them.
    talk.send("client", encode("setq", opaque=talk.opaque(), item_flags=0, value=b"1", **where))
    talk.send("client", encode("deleteq", opaque=talk.opaque(), **where))
    talk.ask("noop")
    talk.ask(
        "set",
        stored(12, _duration(12_000)),
        frames=[(1, pack(">BH", 1, 2500))],
        value=value,
        datatype=datatype,
        **where,
    )
    talk.ask(
        "set",
        {},
        status=Status.SYNC_WRITE_AMBIGUOUS,
        frames=[(1, b"\x03")],
        value=value,
        datatype=datatype,
        **where,
    )
    talk.ask("set", stored(14), frames=[(5, b"")], value=value, datatype=datatype, **where)
    talk.ask("delete", stored(15), frames=[(1, b"\x02"), (4, b"^clerk")], **where)
    talk.ask(
        "get_meta",
        {"deleted": 1, "item_flags": 6, "rev_seqno": 8, "stored_datatype": 1, "cas": hlc(15)},
        meta_version=2,
        **where,
    )
    meta: dict[str, Any] = {
        "item_flags": 6,
        "rev_seqno": 9,
        "meta_cas": hlc(16),
        "options": ["skip-conflict-resolution"],
    }
    talk.ask("set_with_meta", stored(16), value=value, datatype=datatype, **meta, **where)
    talk.ask("del_with_meta", stored(17), item_flags=0, rev_seqno=10, meta_cas=hlc(17), **where)
    talk.ask(
        "get_replica",
        {"item_flags": 6, "value": value, "datatype": datatype, "cas": hlc(16)},
        **where,
    )
    talk.ask(
        "get_random_key",
        {"item_flags": 0, "key": b"\x08pear", "value": b"{}", "datatype": 1},
        collection_id=FRUIT,
    )
    refusal = {"value": cluster_config(42, "node1.example", "node2.example"), "datatype": 1}
    talk.ask(
        "get", refusal, status=Status.NOT_MY_VBUCKET, vbucket=1023, collection=FRUIT, key="pear"
    )
    unknown = {
        "value": text({"error": {"context": "Unknown collection"}, "manifest_uid": "4"}),
        "datatype": 1,
    }
    talk.ask(
        "get", unknown, status=Status.UNKNOWN_COLLECTION, vbucket=417, collection=0x5555, key="pear"
    )


def _subdocuments(talk: Conversation) -> None:
    where: dict[str, Any] = {"vbucket": 417, "collection": FRUIT, "key": "apple"}
    stored = {"generation": "mutation-seqno", "vbucket_uuid": UUID}
    talk.ask(
        "subdoc_get",
        {"value": '"red"', "datatype": 1, "cas": hlc(20)},
        path="colour",
        path_flags=0,
        **where,
    )
    talk.ask(
        "subdoc_exists", status=Status.SUBDOC_PATH_ENOENT, path="weight", path_flags=0, **where
    )
    talk.ask(
        "subdoc_dict_upsert",
        stored | {"seqno": 21, "cas": hlc(21)},
        path="weight",
        path_flags=["create-parents"],
        fragment="0.2",
        **where,
    )
    talk.ask(
        "subdoc_counter",
        stored | {"seqno": 22, "cas": hlc(22), "value": "7"},
        path="sold",
        path_flags=0,
        fragment="7",
        **where,
    )
    lookups = [
        {"command": Opcode.SUBDOC_GET, "path_flags": ["xattr"], "path": "_sync.rev"},
        {"command": Opcode.SUBDOC_GET, "path": "missing"},
    ]
    results = [
        {"result_status": 0, "result": '"1-abc"'},
        {"result_status": Status.SUBDOC_PATH_ENOENT},
    ]
    talk.ask(
        "subdoc_multi_lookup",
        {"results": results},
        status=Status.SUBDOC_MULTI_PATH_FAILURE,
        specs=lookups,
        **where,
    )
    mutations = [
        {
            "command": Opcode.SUBDOC_DICT_UPSERT,
            "path_flags": ["create-parents", "xattr"],
            "path": "_sync.rev",
            "fragment": '"2-def"',
        },
        {"command": Opcode.SUBDOC_COUNTER, "path": "sold", "fragment": "1"},
    ]
    counted = [{"index": 1, "result_status": 0, "result": "8"}]
    talk.ask(
        "subdoc_multi_mutation",
        stored | {"seqno": 23, "cas": hlc(23), "results": counted},
        doc_flags=["mkdoc"],
        specs=mutations,
        **where,
    )
    failed = {
        "generation": "failure",
        "index": 1,
        "result_status": int(Status.SUBDOC_PATH_MISMATCH),
    }
    talk.ask(
        "subdoc_multi_mutation",
        failed,
        status=Status.SUBDOC_MULTI_PATH_FAILURE,
        specs=mutations,
        **where,
    )


def _where_vbuckets_are(talk: Conversation) -> None:
    seqnos = [
        {"vbucket": 417, "seqno": 23},
        {"vbucket": 418, "seqno": 0},
        {"vbucket": 419, "seqno": 1 << 33},
    ]
    talk.ask("get_all_vb_seqnos", {"seqnos": seqnos})
    talk.ask("get_all_vb_seqnos", {"seqnos": seqnos[:1]}, state="active")
    talk.ask("get_all_vb_seqnos", {"seqnos": seqnos[:2]}, state="active", collection_id=FRUIT)
    seen = {
        "observed_vbucket": 417,
        "vbucket_uuid": UUID,
        "last_persisted_seqno": 20,
        "current_seqno": 23,
    }
    talk.ask("observe_seqno", {"generation": "v1", **seen}, vbucket=417, vbucket_uuid=UUID)
    after = {"format": 1, **seen, "old_vbucket_uuid": OLDER, "last_received_seqno": 19}
    talk.ask("observe_seqno", {"generation": "failover", **after}, vbucket=417, vbucket_uuid=OLDER)
    talk.ask("get_failover_log", failover_entries([(UUID, 19), (OLDER, 0)]), vbucket=417)
    talk.ask("seqno_persistence", vbucket=417, seqno=23)
    talk.ask("get_vbucket", {"state": "active"}, vbucket=417)
    talk.stat(
        "vbucket-details 417",
        {
            "vb_417": "active",
            "vb_417:high_seqno": "23",
            "vb_417:uuid": str(UUID),
            "vb_417:num_items": "6",
        },
    )


def indexer() -> Conversation:
    """All that is new: collections, snappy, xattrs, delete times, expirations, FlatBuffer events,
    v2.2 markers, flow control, noops.
    """
    talk = Conversation("indexer", mss=536, writes=(1, 1, 4, 2))
    talk.hello("indexer/8.0", *_MODERN, "SnappyEverywhere")
    talk.sasl_plain("app", login())
    talk.select_bucket(BUCKET)
    talk.open("secidx:orders-1", "producer", "include-xattrs", "include-delete-times")
    for key, setting in {
        "enable_noop": "true",
        "set_noop_interval": "1",
        "connection_buffer_size": "65536",
        "set_priority": "high",
        "enable_expiry_opcode": "true",
        "flatbuffers_system_events": "true",
        "max_marker_version": "2.2",
        "send_stream_end_on_client_close_stream": "true",
        "supports_cursor_dropping_vulcan": "true",
        "supports_hifi_MFU": "true",
        "v7_dcp_status_codes": "true",
        "backfill_order": "sequential",
    }.items():
        talk.control(key, setting)
    talk.control("stream_buffer_size", "4096", status=Status.NOT_SUPPORTED)
    talk.control("make_coffee", "black", status=Status.EINVAL)
    talk.failover_log(417, [(UUID, 19), (OLDER, 0)])
    _from_disk_to_memory(talk)
    _several_streams(talk)
    return talk


def _from_disk_to_memory(talk: Conversation) -> None:
    stream = talk.stream(417, log=[(UUID, 19), (OLDER, 0)], value={"uid": "0"})
    disk: dict[str, Any] = {
        "max_visible_seqno": 19,
        "high_completed_seqno": 17,
        "purge_seqno": 2,
        "high_prepared_seqno": 18,
    }
    stream.snapshot(0, 19, "disk", "checkpoint", version="v2.2", **disk)
    stream.system_event(
        1,
        "create-scope",
        "market",
        version="v2",
        manifest_uid=0,
        scope_id=MARKET,
        scope_name="market",
    )
    fruit = {
        "scope_id": MARKET,
        "collection_id": FRUIT,
        "collection_name": "fruit",
        "history": False,
        "metered": False,
        "flush_uid": 0,
    }
    stream.system_event(3, "begin-collection", "fruit", version="v2", manifest_uid=2, **fruit)
    vegetable = {
        "scope_id": MARKET,
        "collection_id": VEGETABLE,
        "ttl_valid": True,
        "max_ttl": 86400,
        "collection_name": "vegetable",
    }
    stream.system_event(
        4, "begin-collection", "vegetable", version="v2", manifest_uid=3, **vegetable
    )
    # All datatypes: plain, JSON, snappy, xattrs, and their mixtures.
    xattrs = {"_sync": text({"rev": "1-abc", "sequence": 7}), "owner": '"clerk"'}
    for number in range(8):
        body: Any = order(number, 3) if number & 1 else b"plain bytes, plain bytes, plain bytes"
        stream.mutation(
            5 + number,
            f"datatype::{number}",
            body,
            collection=FRUIT,
            snappy=bool(number & 2),
            xattrs=xattrs if number & 4 else None,
            item_flags=0x0200_0006,
            nru=number,
        )
    stream.mutation(
        13, "large", order(13, 90), collection=VEGETABLE, expiration=EPOCH + 86400, rev=3
    )
    stream.mutation(
        14,
        "larger, compressed",
        order(14, 300),
        collection=VEGETABLE,
        expiration=EPOCH + 86400,
        snappy=True,
    )
    stream.mutation(15, "clé-✓", {"name": "crème brûlée"}, collection=0)
    stream.deletion(16, "gone", collection=FRUIT)
    stream.deletion(
        17,
        "gone, with xattrs",
        collection=FRUIT,
        xattrs={"_sync": text({"rev": "3-fed"})},
        snappy=True,
    )
    # Seqnos 18 and 19 are a durable write: this client did not ask for prepares and sees a
    # mutation.
    stream.mutation(19, "durable", {"paid": True}, collection=FRUIT)
    talk.acknowledge()
    stream.snapshot(20, 27, "memory", "checkpoint")
    stream.mutation(21, "apple", {"kind": "apple", "stock": 4}, collection=FRUIT)
    stream.expiration(22, "leek", collection=VEGETABLE, xattrs={"_sync": text({"rev": "2-abc"})})
    stream.expiration(23, "carrot", collection=VEGETABLE)
    stream.system_event(
        24,
        "modify-collection",
        "vegetable",
        version="v2",
        manifest_uid=4,
        **{**vegetable, "history": True},
    )
    for seqno, collection in ((25, FRUIT), (26, VEGETABLE)):
        stream.system_event(
            seqno,
            "end-collection",
            version="v2",
            manifest_uid=5,
            scope_id=MARKET,
            collection_id=collection,
            system_collection=False,
        )
    stream.system_event(
        27, "drop-scope", version="v2", manifest_uid=6, scope_id=MARKET, system_scope=False
    )
    talk.noop()
    stream.snapshot(28, 30, "memory")
    stream.mutation(28, "pear", {"kind": "pear"})
    # Prepare and abort, invisible to this client: nothing else ends the snapshot.
    stream.seqno_advanced(30)
    talk.noop()
    stream.end("state-changed")


def _several_streams(talk: Conversation) -> None:
    closed = talk.stream(418, log=[(UUID, 0)])
    closed.snapshot(0, 2, "memory", "checkpoint")
    closed.mutation(1, "plum", {"kind": "plum"})
    closed.close()
    closed.end("closed")
    closed.close(status=Status.KEY_ENOENT)
    first = talk.stream(
        419, log=[(UUID, 100), (OLDER, 0)], start=120, uuid=UUID, snapshot=(118, 125), end=126
    )
    # A second request while the stream is there.
    talk.stream(419, start=120, uuid=UUID, snapshot=(118, 125), status=Status.KEY_EEXISTS)
    # In the middle of a snapshot: its marker begins where the client's snapshot began.
    first.snapshot(118, 126, "memory")
    for seqno in (121, 123, 126):
        first.mutation(seqno, f"resumed::{seqno}", order(seqno))
    first.end("ok")
    refusal = {
        "value": text({"error": {"context": "Unknown collection"}, "manifest_uid": "6"}),
        "datatype": 1,
    }
    talk.stream(
        420, value={"collections": ["5555"]}, status=Status.UNKNOWN_COLLECTION, reply=refusal
    )
    config = {"value": cluster_config(42, "node1.example", "node2.example"), "datatype": 1}
    talk.stream(1023, status=Status.NOT_MY_VBUCKET, reply=config)
    talk.stream(421, start=20, end=10, uuid=UUID, status=Status.ERANGE)
    talk.stream(422, start=500, uuid=0xBAD, log=(), rollback=0)
    again = talk.stream(422, flags=("to-latest", "strict-vbucket-uuid"), log=[(UUID, 0)])
    again.snapshot(0, 1, "disk", "checkpoint", version="v2.2", max_visible_seqno=1)
    again.mutation(1, "quince", {"kind": "quince"})
    again.end("ok")
    failing = talk.stream(423, log=[(UUID, 0)])
    failing.end("backfill-failed")
    talk.acknowledge()


def backup() -> Conversation:
    """A legacy client over IPv6: no collections, no xattrs, v1 markers and v1 deletions."""
    talk = Conversation(
        "backup", client="client6", server="node1-6", mss=1220, nodelay=False, writes=(3,)
    )
    talk.hello("backup/5.0", "TcpNoDelay", "SELECT_BUCKET", "JSON")
    talk.sasl_list()
    talk.sasl_plain("backup", login("backup"))
    talk.select_bucket(BUCKET)
    talk.open("eq_dcpq:backup-17", "producer")
    talk.control("connection_buffer_size", "20480")
    talk.control("enable_noop", "true")
    stream = talk.stream(5, log=[(OLDER, 0)], flags=["disk-only"], end=40)
    stream.snapshot(0, 40, "disk", "checkpoint")
    for seqno in (2, 3, 7, 8, 15, 31):
        stream.mutation(seqno, f"order::{seqno}", order(seqno, seqno), item_flags=seqno, nru=3)
    stream.deletion(39, "order::38")
    stream.mutation(40, "counter", b"40")
    stream.end("ok")
    talk.acknowledge()
    stream = talk.stream(6, log=[(OLDER, 0)])
    stream.snapshot(0, 3, "memory", "checkpoint")
    for seqno in (1, 2, 3):
        stream.mutation(seqno, f"order::{seqno}", order(seqno))
    talk.noop()
    stream.snapshot(5, 5, "memory")
    stream.deletion(5, "order::2")
    stream.end("state-changed")
    talk.acknowledge()
    talk.close("server")
    return talk


def analytics() -> Conversation:
    """Stream-ids: two filtered streams of one vbucket, told apart by a framing extra; one of them
    loses its collection.
    """
    talk = Conversation("analytics", mss=900, writes=(2, 5))
    talk.hello("analytics/7.6", *_MODERN)
    talk.sasl_scram("analytics")
    talk.select_bucket(BUCKET)
    talk.open(
        "cbas:market",
        "producer",
        "include-xattrs",
        "include-delete-times",
        "include-deleted-user-xattrs",
    )
    for key in (
        "enable_noop",
        "enable_stream_id",
        "enable_expiry_opcode",
        "send_stream_end_on_client_close_stream",
    ):
        talk.control(key, "true")
    talk.control("connection_buffer_size", "32768")
    fruit = talk.stream(9, log=[(UUID, 0)], value={"uid": "2", "sid": 1, "collections": ["8"]})
    market = talk.stream(9, log=[(UUID, 0)], value={"sid": 2, "scope": "8"})
    talk.stream(9, value={"collections": ["9"]}, status=Status.DCP_STREAM_ID_INVALID)
    for stream in (fruit, market):
        stream.snapshot(0, 9, "disk", "checkpoint")
    market.system_event(1, "create-scope", "market", manifest_uid=0, scope_id=MARKET)
    for stream in (fruit, market):
        stream.system_event(
            2, "begin-collection", "fruit", manifest_uid=2, scope_id=MARKET, collection_id=FRUIT
        )
    market.system_event(
        3,
        "begin-collection",
        "vegetable",
        version="v1",
        manifest_uid=3,
        scope_id=MARKET,
        collection_id=VEGETABLE,
        max_ttl=86400,
    )
    for seqno in (4, 5, 6):
        fruit.mutation(
            seqno, f"fruit::{seqno}", order(seqno), collection=FRUIT, xattrs={"owner": '"clerk"'}
        )
        market.mutation(
            seqno, f"fruit::{seqno}", order(seqno), collection=FRUIT, xattrs={"owner": '"clerk"'}
        )
    market.mutation(7, "leek", {"kind": "leek"}, collection=VEGETABLE, expiration=EPOCH + 60)
    fruit.deletion(8, "fruit::1", collection=FRUIT, xattrs={"owner": '"clerk"'})
    market.deletion(8, "fruit::1", collection=FRUIT, xattrs={"owner": '"clerk"'})
    market.expiration(9, "carrot", collection=VEGETABLE)
    fruit.seqno_advanced(9)
    fruit.snapshot(10, 10, "memory", "checkpoint")
    fruit.system_event(10, "end-collection", manifest_uid=4, scope_id=MARKET, collection_id=FRUIT)
    fruit.end("filter-empty")
    market.snapshot(10, 13, "memory", "checkpoint")
    market.system_event(10, "end-collection", manifest_uid=4, scope_id=MARKET, collection_id=FRUIT)
    # What servers since 8.0 send for this one: the frame is there, its length in the header is 0.
    talk.send(talk.producer, _undeclared_stream_id(market.opaque, 2))
    talk.counted += 24 + 3 + 21 + 5
    market.system_event(
        12, "end-collection", manifest_uid=5, scope_id=MARKET, collection_id=VEGETABLE
    )
    market.system_event(13, "drop-scope", manifest_uid=6, scope_id=MARKET)
    market.end("lost-privileges")
    talk.acknowledge()
    last = talk.stream(10, log=[(UUID, 0)], value={"sid": 7, "collections": ["0", "a"]})
    last.snapshot(0, 4, "memory", "checkpoint")
    last.mutation(2, "quince", {"kind": "quince"}, collection=ARCHIVE)
    last.close()
    last.end("closed")
    return talk


def _undeclared_stream_id(opaque: int, sid: int) -> bytes:
    extras = pack(">QQIB", 11, 2, EPOCH + 11, 0)
    framing = b"\x22" + pack(">H", sid)
    return encode_parts(
        0x08,
        Opcode.DCP_DELETION,
        framing=framing,
        framing_size=0,
        extras=extras,
        key=encode_leb128(VEGETABLE) + b"pear",
        specific=9,
        opaque=opaque,
        cas=hlc(11),
    )


def search() -> Conversation:
    """Out-of-order snapshots and values left out; the whole backfill comes in the order of keys."""
    talk = Conversation("search", mss=700, writes=(6, 1))
    talk.hello("search/7.2", *_MODERN)
    talk.sasl_plain("search", login("search"))
    talk.select_bucket(BUCKET)
    talk.open("fts:orders", "producer", "include-xattrs", "no-value-with-underlying-datatype")
    talk.control("enable_noop", "true")
    talk.control("enable_out_of_order_snapshots", "true_with_seqno_advanced")
    talk.control("connection_buffer_size", "1048576")
    stream = talk.stream(33, log=[(UUID, 0)], value={"collections": ["8"]})
    stream.oso("start")
    stream.system_event(
        1,
        "begin-collection",
        "fruit",
        version="v0",
        manifest_uid=2,
        scope_id=MARKET,
        collection_id=FRUIT,
    )
    for seqno, name in ((9, "apple"), (3, "cherry"), (14, "fig"), (6, "pear"), (11, "plum")):
        # No value, yet the datatype of the document that is stored.
        stream.send(
            "dcp_mutation",
            cas=hlc(seqno),
            datatype=3,
            collection=FRUIT,
            key=name,
            by_seqno=seqno,
            rev_seqno=1,
            item_flags=0x0200_0006,
        )
    stream.deletion(12, "quince", collection=FRUIT)
    stream.seqno_advanced(15)
    stream.oso("end")
    stream.snapshot(16, 17, "memory", "checkpoint")
    stream.send(
        "dcp_mutation",
        cas=hlc(16),
        datatype=1,
        collection=FRUIT,
        key="apple",
        by_seqno=16,
        rev_seqno=2,
    )
    stream.mutation(17, "fig", b"", collection=FRUIT, xattrs={"_sync": text({"rev": "1-aaa"})})
    talk.noop()
    stream.end("state-changed")
    talk.acknowledge()
    return talk


def replication() -> Conversation:
    """Between nodes: the TCP server is the consumer. Durable writes, markers v2.0, acknowledged
    snapshots, and a takeover.
    """
    talk = Conversation("replication", producer="client", mss=1000, writes=(2,))
    talk.hello("proxy", *_MODERN)
    talk.sasl_plain("@ns_server", login("@ns_server"))
    talk.select_bucket(BUCKET)
    talk.open(
        "replication:node1->node2:travel",
        "include-xattrs",
        "include-delete-times",
        value={"consumer_name": "replica-2"},
    )
    for key, setting in {
        "enable_noop": "true",
        "set_noop_interval": "1",
        "connection_buffer_size": "1048576",
        "enable_sync_writes": "true",
        "consumer_name": "replica-2",
        "include_deleted_user_xattrs": "true",
        "v7_dcp_status_codes": "true",
    }.items():
        talk.control(key, setting)
    number, add = talk.next_opaque, 0xCAFE
    talk.send("client", encode("dcp_add_stream", vbucket=100, opaque=add))
    stream = talk.stream(100, log=[(UUID, 0)])
    # The number of the stream, here in network order and in the headers of its messages not.
    talk.answer("dcp_add_stream", add, stream_opaque=number)
    assert stream.opaque == swapped(number)
    stream.snapshot(
        0, 3, "disk", "checkpoint", version="v2.0", max_visible_seqno=3, high_completed_seqno=2
    )
    stream.mutation(2, "seeded", {"from": "disk"}, collection=FRUIT)
    stream.prepare(3, "order::3", order(3), level="persist-to-majority", collection=FRUIT)
    talk.acknowledge(waits=False)
    stream.snapshot(4, 9, "memory", "checkpoint", version="v2.0", max_visible_seqno=9)
    stream.seqno_acknowledged(3)
    stream.commit(3, 4, "order::3", collection=FRUIT)
    stream.prepare(5, "order::5", order(5), level="majority", collection=FRUIT)
    stream.prepare(
        6, "order::2", b"", level="majority-and-persist-on-active", collection=FRUIT, deleted=True
    )
    stream.seqno_acknowledged(6)
    stream.abort(5, 7, "order::5", collection=FRUIT)
    stream.commit(6, 8, "order::2", collection=FRUIT)
    stream.mutation(9, "order::9", order(9), collection=FRUIT)
    talk.noop()
    stream.close()
    number, add = talk.next_opaque, add + 1
    talk.send("client", encode("dcp_add_stream", vbucket=100, opaque=add, flags=["takeover"]))
    stream = talk.stream(
        100, log=[(UUID, 0)], start=9, uuid=UUID, snapshot=(4, 9), flags=["takeover"]
    )
    talk.answer("dcp_add_stream", add, stream_opaque=number)
    stream.snapshot(9, 10, "memory", "ack", version="v2.0", max_visible_seqno=10)
    stream.mutation(10, "order::10", order(10), collection=FRUIT)
    stream.snapshot_received()
    stream.set_state("pending")
    stream.snapshot(11, 11, "memory", "ack", version="v2.0", max_visible_seqno=11)
    stream.deletion(11, "order::9", collection=FRUIT, rev=3)
    stream.snapshot_received()
    stream.set_state("active")
    stream.end("ok")
    talk.acknowledge()
    talk.ask("dcp_add_stream", status=Status.NOT_MY_VBUCKET, vbucket=101)
    return talk


def takeover() -> Conversation:
    """Cached documents before the stream proper, from a development build."""
    talk = Conversation("takeover", mss=536, writes=(1, 2))
    talk.hello("rebalance", *_MODERN)
    talk.sasl_scram("@ns_server")
    talk.select_bucket(BUCKET)
    talk.open("replication:cache", "producer", "include-xattrs", "include-delete-times")
    talk.control("enable_noop", "true")
    talk.control("cache_transfer", "true")
    talk.control("connection_buffer_size", "65536")
    stream = talk.stream(
        200,
        log=[(UUID, 0)],
        start=500,
        uuid=UUID,
        flags=["active-only", "cache-transfer"],
        value={"cts": {"free_memory": 4096, "all_keys": True}},
    )
    stream.cache_transfer([_cached(44, order(44)), _cached(12, None), _cached(499, order(499, 20))])
    stream.cache_transfer([_cached(7, order(7))])
    stream.cache_transfer_end()
    stream.snapshot(500, 502, "memory", "checkpoint")
    stream.mutation(501, "cached::44", order(501), collection=FRUIT, rev=2)
    stream.mutation(502, "fresh", {"kind": "fresh"}, collection=FRUIT)
    stream.end("state-changed")
    talk.acknowledge()
    return talk


def _cached(seqno: int, body: Any) -> dict[str, Any]:
    value, datatype = (b"", 1) if body is None else document(body)
    return {
        "cas": hlc(seqno),
        "by_seqno": seqno,
        "rev_seqno": 1,
        "item_flags": 0x0200_0006,
        "datatype": datatype,
        "cache_hint": 4,
        "key": encode_leb128(FRUIT) + f"cached::{seqno}".encode(),
        "value": value,
    }
