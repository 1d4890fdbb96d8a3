from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.pipeline import Options, expire
from dcpinspect.spark.pipeline_info import pipeline_info
from tests.spark.cuts import packets_of, written
from tests.spark.outputs import here, ran
from tests.streams.told import Told, capture

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def test_an_output_says_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.pcap").write_bytes(b"none")
    done = ran(tmp_path / "out", SAMPLES / "tour.pcapng", tmp_path / "bad")
    found = pipeline_info(Manifest.newest(tmp_path / "out"))
    assert found["captures"] == {"ok": 1, "damaged": 0, "bad": 1, "expired": 0}
    assert found["tables"] == done.rows
    samples, bad = found["points"]
    assert (samples["point"], samples["captures"], samples["packets"]) == (
        "sample_captures",
        1,
        done.packets,
    )
    assert samples["first_time"] < samples["last_time"]
    assert bad == {
        "point": "bad",
        "captures": 0,
        "bytes": 0,
        "packets": 0,
        "first_time": None,
        "last_time": None,
    }
    assert [one["severity"] for one in found["problems"]] == ["error"]


def test_consumers_are_followed_over_connections_and_findings_are_put_together(
    tmp_path: Path,
) -> None:
    ran(tmp_path / "out", SAMPLES / "loop.pcap")
    found = pipeline_info(Manifest.newest(tmp_path / "out"))
    with Reading([str(SAMPLES / "loop.pcap")]) as reading:
        reading.check()
        for _ in reading:
            pass
        tables = reading.by_name()
        every = reading.findings()
    findings = [one for one in every if one.effect_of is None]
    assert len(findings) < len(every)
    clients = tables["vbuckets"].values("client")
    assert {
        one["client"]: one["vbuckets"] for one in found["consumers"] if one["vbuckets"]
    } == Counter(clients)
    numbers = [number for one in found["consumers"] for number in one["connections"]]
    assert sorted(numbers) == tables["connections"].values("connection")
    assert max(len(one["connections"]) for one in found["consumers"]) > 1
    kinds = Counter((one.severity, one.rule, one.cause) for one in findings)
    assert {
        (one["severity"], one["rule"], one["cause"]): one["findings"] for one in found["findings"]
    } == kinds
    assert sum(one["count"] for one in found["findings"]) == sum(one.count for one in findings)


@pytest.mark.slow
def test_points_whose_captures_have_all_expired_are_left_out(tmp_path: Path) -> None:
    packets = packets_of(SAMPLES / "loop.pcap")
    for name, some in (("early", packets[:200]), ("late", packets[200:])):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "x.pcap", some)
    ran(tmp_path / "out", tmp_path / "early", tmp_path / "late")
    assert [one["point"] for one in pipeline_info(Manifest.newest(tmp_path / "out"))["points"]] == [
        "early",
        "late",
    ]
    expire(Options((), str(tmp_path / "out")), packets[200].time_ns, here)
    assert [one["point"] for one in pipeline_info(Manifest.newest(tmp_path / "out"))["points"]] == [
        "late"
    ]


def test_a_client_of_two_buckets_is_a_consumer_of_each(tmp_path: Path) -> None:
    talks = []
    for number, bucket in enumerate(("travel", "beer", "travel")):
        talk = Told("kafka", port=50_000 + number)
        talk.hello("test/1.0", "JSON", "Collections")
        talk.select_bucket(bucket)
        talk.open(f'{{"a":"kafka","i":"{number}"}}', "producer")
        for vbucket in range(5 if number < 2 else 0):
            talk.stream(vbucket)
        talks.append(talk)
    (tmp_path / "x.pcap").write_bytes(capture(*talks))
    ran(tmp_path / "out", tmp_path / "x.pcap")
    found = pipeline_info(Manifest.newest(tmp_path / "out"))["consumers"]
    assert [(one["client"], one["vbuckets"], one["connections"]) for one in found] == [
        ("10.0.0.1 kafka@beer", 5, [2]),
        ("10.0.0.1 kafka@travel", 5, [1, 3]),
    ]
