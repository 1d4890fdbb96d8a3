from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from dcpinspect.errors import CaptureError
from dcpinspect.findings.logs.checkpoint_files import Checkpoint, read_checkpoints

UUID = 0xF0F0_0000_0000_0001
OFFSET = {
    "bySeqno": 7,
    "vbuuid": UUID - 2**64,
    "snapshotStartSeqno": 5,
    "snapshotEndSeqno": 9,
    "collectionsManifestUid": 0,
}
KAFKA = {"bucket": "beer", "partition": "417", "connector": "sink"}
VBUUID = {"vbuuid": UUID - 2**64, "seqno": 7, "snapshot": {"startSeqno": 5, "endSeqno": 9}}
GATEWAY = {
    "VbUUID": UUID,
    "StartSeqNo": 7,
    "EndSeqNo": 2**64 - 1,
    "SnapStartSeqNo": 5,
    "SnapEndSeqNo": 9,
    "FailoverEntries": None,
}
CBGT = {
    "failOverLog": [[UUID, 3], [1, 0]],
    "seqStart": 7,
    "seqEnd": 2**64 - 1,
    "snapStart": 5,
    "snapEnd": 9,
}
STATE = {
    "flog": [{"seqno": 3, "uuid": UUID - 2**64}],
    "ss": 7,
    "es": -1,
    "cm": 0,
    "sss": 5,
    "ses": 9,
}

FORMS: list[tuple[str, Any]] = [
    ("Kafka connector", {"offsets": [{"partition": KAFKA, "offset": OFFSET}]}),
    (
        "Elasticsearch connector",
        {"formatVersion": 1, "bucketUuid": "ab", "vbuckets": {"417": VBUUID}},
    ),
    ("Elasticsearch connector or go-dcp", {"417": {"checkpoint": VBUUID, "bucketUuid": "ab"}}),
    (
        "Elasticsearch connector or go-dcp",
        {"_connector:cbgo:group:checkpoint:417": {"checkpoint": VBUUID, "bucketUuid": "ab"}},
    ),
    (
        "Elasticsearch connector or go-dcp",
        {"_connector:cbes:g:checkpoint:417#1f": {"cbes": {"checkpoint": VBUUID, "bucketUuid": ""}}},
    ),
    (
        "Elasticsearch connector or go-dcp",
        [{"id": "_connector:cbgo:g:checkpoint:417", "cbgo": {"checkpoint": VBUUID}}],
    ),
    ("Sync Gateway", {"DCPMeta": {"417": GATEWAY}}),
    ("Sync Gateway", {"_sync:dcp_ck:0": {"DCPMeta": {"417": GATEWAY}}}),
    ("cbgt", {"_sync:dcp_ck:417": CBGT}),
    ("cbgt", {"_sync:dcp_ck:group:417": CBGT | {"lastSeq": 7}}),
    ("Java DCP client", {"v": 1, "ps": [*[STATE | {"ss": 0, "sss": 0, "ses": 0}] * 417, STATE]}),
]


def read(path: Path, text: bytes) -> list[Checkpoint]:
    path.write_bytes(text)
    return read_checkpoints(str(path))


@pytest.mark.parametrize(("consumer", "document"), FORMS)
@pytest.mark.parametrize("option", [0, orjson.OPT_INDENT_2])
def test_a_checkpoint_of_each_form_is_read(
    tmp_path: Path, consumer: str, document: Any, option: int
) -> None:
    path = tmp_path / "ck.json"
    found = read(path, orjson.dumps(document, option=option))[-1]
    bucket = "beer" if consumer == "Kafka connector" else None
    assert found == Checkpoint(str(path), consumer, 417, 7, UUID, 5, 9, bucket)
    assert found.is_in_snapshot


def test_a_checkpoint_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = orjson.dumps(FORMS[0][1])
    assert read(tmp_path / "ck", b"\xef\xbb\xbf" + text) == read(tmp_path / "ck", text)


def test_lines_of_the_console_consumer_are_read(tmp_path: Path) -> None:
    lines = [
        b"\t".join((orjson.dumps(["sink", KAFKA | {"partition": str(one)}]), orjson.dumps(OFFSET)))
        for one in range(3)
    ]
    gone = orjson.dumps(["sink", KAFKA]) + b"\tnull"
    assert [one.vbucket for one in read(tmp_path / "offsets", b"\n".join([*lines, gone, b""]))] == [
        0,
        1,
        2,
    ]


def test_an_offset_of_an_old_connector_has_its_seqno_alone(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "ck", orjson.dumps([{"partition": KAFKA, "offset": {"bySeqno": 7}}]))
    assert (found.uuid, found.snapshot_start, found.snapshot_end) == (0, 7, 7)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "line 1 is no JSON|no checkpoint"),
        (b"{}", "no checkpoint in a form"),
        (b"[1, 2", "line 1 is no JSON"),
        (b'{"a": 1}\n{"b"', "line 2 is no JSON"),
        (b"[" * 100_000, "line 1 is no JSON"),
        (b"[" * 500 + b"]" * 500, "no checkpoint in a form"),
        (orjson.dumps(CBGT), "does not say of which vbucket"),
        (orjson.dumps({"checkpoint": VBUUID}), "does not say of which vbucket"),
        (orjson.dumps({"DCPMeta": {"70000": GATEWAY}}), "no number from 0 to 65535"),
        (
            orjson.dumps({"DCPMeta": {"1": GATEWAY | {"VbUUID": "x"}}}),
            "VbUUID of a checkpoint is missing",
        ),
        (orjson.dumps({"DCPMeta": {"1": None}}), "is missing"),
        (orjson.dumps({"v": 1, "ps": [7]}), "is missing"),
        (orjson.dumps({"1": {"checkpoint": VBUUID | {"seqno": 1.5}}}), "no number of 64 bits"),
        (
            b'{"1": {"checkpoint": {"vbuuid": 99999999999999999999, "seqno": 1}}}',
            "no number of 64 bits|is no JSON",
        ),
        (b"\xff\x00\xfe", "is no JSON"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, text: bytes, what: str) -> None:
    with pytest.raises(CaptureError, match=what):
        read(tmp_path / "ck.json", text)


def test_any_bytes_give_checkpoints_or_a_sentence(tmp_path: Path) -> None:
    from random import Random

    random = Random(20)
    for _, document in FORMS * 20:
        text = bytearray(
            orjson.dumps(document)[-600:]
            if len(orjson.dumps(document)) > 5000
            else orjson.dumps(document)
        )
        for _ in range(random.randint(1, 4)):
            text[random.randrange(len(text))] = random.choice(b'0123456789-"{}[]:,nul.e')
        with suppress(CaptureError):
            assert read(tmp_path / "ck.json", bytes(text))
