from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.output.exposition import BOUNDS_S, FAMILIES, Metrics, Snapshot, Times
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import Conversation
from tests.captures import real_server
from tests.doubled import Doubled, packets_of, passed_on, translated
from tests.doubled import written as captured
from tests.encode import encode
from tests.peers.truth import SAMPLES

DOCS = Path(__file__).parent.parent.parent / "docs"
MONITORING = DOCS / "monitoring"
NEWEST = 5_000_000_000


def measured(path: Path, *, most: int = 100, batch_bytes: int = 1 << 24) -> list[Snapshot]:
    """The numbers after every batch."""
    with Reading(open_capture([str(path)], batch_bytes=batch_bytes)) as reading:
        metrics = Metrics(reading, limit=most)
        found = []
        for batch in reading:
            metrics.feed(batch)
            found.append(metrics.snapshot())
        return [*found, metrics.snapshot()]


def value(found: Snapshot, name: str, *labels: str) -> float:
    (one,) = [number for of, number in found[name] if of == labels]
    assert not isinstance(one, Times)
    return one


def counters(found: Snapshot) -> dict[tuple[str, ...], float]:
    """All counters, and the counts of histograms."""
    out: dict[tuple[str, ...], float] = {}
    for family in FAMILIES:
        for labels, number in found.get(family.name, ()):
            if isinstance(number, Times):
                out.update(
                    {
                        (family.name, *labels, str(place)): count
                        for place, count in enumerate(number.counts)
                    }
                )
            elif family.kind == "counter":
                out[family.name, *labels] = number
    return out


def opened(one: Conversation, name: bytes, bucket: bytes = b"travel") -> None:
    """The connection until its producer is open."""
    one.handshake()
    one.stream(True, encode("hello", key="agent"))
    one.stream(False, encode("hello", "response"))
    one.stream(True, encode("select_bucket", key=bucket))
    one.stream(False, encode("select_bucket", "response"))
    one.stream(True, encode("dcp_open", key=name, flags=["producer"]))
    one.stream(False, encode("dcp_open", "response"))


def streaming(
    one: Conversation, vbucket: int, seqnos: Iterable[int], *, opaque: int = 0x11
) -> None:
    """A stream from the start, with a snapshot of these seqnos."""
    seqnos = list(seqnos)
    one.stream(
        True, encode("dcp_stream_req", vbucket=vbucket, opaque=opaque, end_seqno=(1 << 64) - 1)
    )
    one.stream(
        False,
        encode("dcp_stream_req", "response", opaque=opaque, failover_log=[{"uuid": 1, "seqno": 0}]),
    )
    one.stream(
        False,
        encode(
            "dcp_snapshot_marker",
            vbucket=vbucket,
            opaque=opaque,
            end_seqno=max(seqnos),
            snapshot_type=["memory"],
        ),
    )
    for seqno in seqnos:
        one.stream(
            False, builders.mutation(seqno, vbucket=vbucket, opaque=opaque, key=b"k%d" % seqno)
        )


def written(path: Path, *talks: Conversation) -> Path:
    path.write_bytes(
        builders.pcap(builders.recorded([segment for talk in talks for segment in talk.segments]))
    )
    return path


@pytest.mark.parametrize(
    "name", ["rollback.pcap", "snapshots.pcap", "tour.pcapng", "orphans.pcap", "lossy.pcap"]
)
def test_the_numbers_are_those_of_the_tables(name: str) -> None:
    path = SAMPLES / name
    found = measured(path)[-1]
    with Reading([str(path)], track=True) as reading:
        batches = list(reading)
        tables = reading.tables
    messages = Counter(number for batch in batches for number in batch.decoded.is_response.tolist())
    for side, is_response in (("request", False), ("response", True)):
        own = [number for labels, number in found["dcpinspect_messages_total"] if labels[3] == side]
        assert sum(map(float, map(str, own))) == messages[is_response]
    sizes = sum(float(str(number)) for _, number in found["dcpinspect_message_bytes_total"])
    assert sizes == sum(int(batch.length.sum()) for batch in batches)
    answers = sum(
        number.counts[-1]
        for _, number in found["dcpinspect_answer_seconds"]
        if isinstance(number, Times)
    )
    assert answers == sum(
        len(batch) if batch.rtt_ns.valid is None else int(batch.rtt_ns.valid.sum())
        for batch in batches
    )
    assert total(found, "dcpinspect_rollbacks_total") == tables.streams.values("answer").count(
        "rollback"
    )
    assert total(found, "dcpinspect_streams_opened_total") == len(tables.streams)
    assert total(found, "dcpinspect_connections_opened_total") == len(tables.connections)
    assert total(found, "dcpinspect_holes_total") == sum(tables.connections.values("holes"))


def total(found: Snapshot, name: str) -> float:
    return sum(number for _, number in found[name] if not isinstance(number, Times))


def test_answer_times_are_counted_up_to_each_bound(tmp_path: Path) -> None:
    one = Conversation()
    one.handshake()
    for opaque, wait_ns in enumerate((50_000, 100_000, 3_000_000, 20_000_000_000), 1):
        one.send(True, encode("dcp_noop", opaque=opaque))
        one.time_ns += wait_ns - one.step_ns
        one.send(False, encode("dcp_noop", "response", opaque=opaque))
    (times,) = [
        number
        for _, number in measured(written(tmp_path / "x.pcap", one))[-1][
            "dcpinspect_answer_seconds"
        ]
    ]
    assert isinstance(times, Times)
    expected = [2 if bound < 0.003 else 3 for bound in BOUNDS_S] + [4]
    assert list(times.counts) == expected
    assert times.sum == pytest.approx(20.00315)


def test_gaps_count_by_their_cause_once_they_are_five_seconds_old(tmp_path: Path) -> None:
    one = Conversation()
    opened(one, b"kafka:1")
    streaming(one, 7, [1, 2, 5, 9])
    young = written(tmp_path / "young.pcap", one)
    pair = ("10.0.0.1 kafka", "travel")
    assert value(measured(young)[-1], "dcpinspect_gaps_total", *pair, "deduplicated") == 0
    one.time_ns += NEWEST
    one.stream(True, encode("dcp_noop", opaque=9))
    old = written(tmp_path / "old.pcap", one)
    found = measured(old)[-1]
    assert value(found, "dcpinspect_gaps_total", *pair, "deduplicated") == 2
    assert value(found, "dcpinspect_gaps_total", *pair, "unexplained") == 0


def test_a_stream_that_lacks_what_the_server_told_has_a_lag_and_is_stuck_when_it_waits_for_long(
    tmp_path: Path,
) -> None:
    one = Conversation()
    opened(one, b"kafka:1")
    streaming(one, 7, [1, 2, 3])
    one.stream(True, encode("get_all_vb_seqnos", opaque=0x50))
    one.stream(
        False,
        encode("get_all_vb_seqnos", "response", opaque=0x50, seqnos=[{"vbucket": 7, "seqno": 10}]),
    )
    path, pair = written(tmp_path / "x.pcap", one), ("10.0.0.1 kafka", "travel")
    found = measured(path)[-1]
    assert value(found, "dcpinspect_seqno_lag", *pair) == 7
    assert value(found, "dcpinspect_seqno_lag_vbuckets", *pair) == 1
    assert value(found, "dcpinspect_vbuckets_stuck", *pair) == 0
    one.time_ns += NEWEST
    one.stream(True, encode("dcp_noop", "response", opaque=0x51))
    found = measured(written(path, one))[-1]
    assert value(found, "dcpinspect_stream_verdicts", *pair, "behind") == 1
    assert value(found, "dcpinspect_vbuckets_stuck", *pair) == 1


def test_the_newest_stream_of_a_vbucket_counts_and_only_on_open_connections(tmp_path: Path) -> None:
    one = Conversation()
    opened(one, b"kafka:1")
    one.stream(True, encode("dcp_stream_req", vbucket=7, opaque=0x10))
    one.stream(False, encode("dcp_stream_req", "response", opaque=0x10, status=0x22))
    streaming(one, 7, [1, 2])
    pair = ("10.0.0.1 kafka", "travel")
    found = measured(written(tmp_path / "x.pcap", one))[-1]
    assert dict(found["dcpinspect_streams"]) == {(*pair, "streaming"): 1}
    assert dict(found["dcpinspect_stream_verdicts"]) == {(*pair, "caught-up"): 1}
    assert value(found, "dcpinspect_streams_opened_total", *pair) == 2
    one.close()
    found = measured(written(tmp_path / "x.pcap", one))[-1]
    assert "dcpinspect_streams" not in found
    assert "dcpinspect_connections" not in found
    assert value(found, "dcpinspect_streams_opened_total", *pair) == 2


def test_the_newest_stream_of_each_consumer_counts_under_the_name_of_its_program(
    tmp_path: Path,
) -> None:
    talks = [Conversation(client=("10.0.0.1", 50_000 + number)) for number in range(2)]
    for number, talk in enumerate(talks):
        opened(talk, b"kafka:%d" % number)
        streaming(talk, 7, [1, 2])
        talk.time_ns += NEWEST
        talk.stream(True, encode("dcp_noop", "response", opaque=0x51))
    segments = sorted(
        (segment for talk in talks for segment in talk.segments), key=lambda one: one.time_ns
    )
    (tmp_path / "x.pcap").write_bytes(builders.pcap(builders.recorded(segments)))
    found = measured(tmp_path / "x.pcap")[-1]
    assert dict(found["dcpinspect_streams"]) == {("10.0.0.1 kafka", "travel", "streaming"): 2}


def test_the_window_and_the_age_of_the_last_noop(tmp_path: Path) -> None:
    one = Conversation()
    opened(one, b"kafka:1")
    one.stream(True, encode("dcp_control", opaque=3, key="connection_buffer_size", value="1000"))
    one.stream(False, encode("dcp_control", "response", opaque=3))
    one.stream(False, encode("dcp_noop", opaque=4))
    one.stream(True, encode("dcp_noop", "response", opaque=4))
    one.time_ns += 3_000_000_000
    streaming(one, 7, [1, 2])
    pair = ("10.0.0.1 kafka", "travel")
    found = measured(written(tmp_path / "x.pcap", one))[-1]
    with Reading([str(tmp_path / "x.pcap")], track=True) as reading:
        list(reading)
        (outstanding,) = reading.tables.connections.values("outstanding_bytes")
    assert outstanding > 0
    assert value(found, "dcpinspect_flow_control_window_bytes", *pair) == 1000
    assert value(found, "dcpinspect_flow_control_outstanding_bytes", *pair) == outstanding
    assert value(found, "dcpinspect_flow_control_fill_ratio", *pair) == outstanding / 1000
    assert value(found, "dcpinspect_noop_age_seconds", *pair) == pytest.approx(3, abs=0.01)


def test_a_clock_that_is_set_back_makes_nothing_old(tmp_path: Path) -> None:
    one = Conversation()
    opened(one, b"kafka:1")
    streaming(one, 7, [1, 2])
    one.time_ns -= 3_600_000_000_000
    one.stream(False, encode("dcp_noop", opaque=4))
    one.stream(True, encode("dcp_noop", "response", opaque=4))
    one.time_ns += 3_000_000_000
    one.stream(False, encode("dcp_mutation", vbucket=7, opaque=0x10, by_seqno=3, key="k"))
    found = measured(written(tmp_path / "x.pcap", one))[-1]
    assert value(found, "dcpinspect_noop_age_seconds", "10.0.0.1 kafka", "travel") == pytest.approx(
        3, abs=0.01
    )


def crowd(count: int) -> Iterator[Conversation]:
    """Clients that come and go, one after the other."""
    time_ns = Conversation().time_ns
    for number in range(count):
        one = Conversation(client=("10.0.0.1", 50_000 + number), time_ns=time_ns)
        opened(one, b"client%d:1" % number)
        streaming(one, number, [1, 3])
        one.close()
        time_ns = one.time_ns + 6_000_000_000
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3, 100])
def test_counters_never_go_down_and_add_up_however_many_clients_have_room(
    most: int, tmp_path: Path
) -> None:
    path = written(tmp_path / "x.pcap", *crowd(8))
    found = measured(path, most=most, batch_bytes=300)
    assert len(found) > 20
    pairs = {labels[:2] for one in found for labels, _ in one["dcpinspect_messages_total"]}
    at_once = max(
        len({labels[:2] for labels, _ in one["dcpinspect_messages_total"]} - {("other", "other")})
        for one in found
    )
    assert at_once <= most
    assert (("other", "other") in pairs) == (most < 100)
    for name in {name for name, *_ in counters(found[-1])}:
        sums = [
            sum(number for (of, *_), number in counters(one).items() if of == name) for one in found
        ]
        assert sums == sorted(sums), name
        assert sums[-1] == sum(
            number for (of, *_), number in counters(measured(path)[-1]).items() if of == name
        )
    for before, after in pairwise(found):
        was, now = counters(before), counters(after)
        assert [key for key in was.keys() & now.keys() if now[key] < was[key]] == []


@pytest.mark.parametrize(
    "name",
    [
        b"a\nb\x1b[31m\x00:1",
        b"\xff\xfe" * 20,
        "‮evil​".encode(),
        b'"} 1\nfake_metric 2',
        b"x" * 60_000,
    ],
)
def test_nothing_hostile_of_a_name_is_in_a_label(name: bytes, tmp_path: Path) -> None:
    one = Conversation()
    opened(one, name, bucket=name[:200])
    streaming(one, 7, [1])
    for labels in {
        labels
        for samples in measured(written(tmp_path / "x.pcap", one))[-1].values()
        for labels, _ in samples
    }:
        assert all(label.isprintable() and len(label) <= 80 for label in labels)


def test_commands_that_nobody_described_are_one(tmp_path: Path) -> None:
    one = Conversation()
    opened(one, b"kafka:1")
    known = set()
    for opcode in range(256):
        one.stream(True, builders.message(opcode=opcode, magic=0x80))
    for labels, _ in measured(written(tmp_path / "x.pcap", one))[-1]["dcpinspect_messages_total"]:
        known.add(labels[2])
    assert "unknown" in known
    assert not [name for name in known if name.startswith("opcode_0x")]


# -- docs
# --------------------------------------------------------------------------------------------------


def table() -> list[str]:
    rows = [
        (
            f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | "
            f"{one.help} |"
        )
        for one in FAMILIES
    ]
    return ["| metric | kind | labels | what it is |", "| --- | --- | --- | --- |", *rows]


def test_every_metric_is_on_the_page_in_its_own_words(request: pytest.FixtureRequest) -> None:
    path = DOCS / "monitoring.md"
    lines = path.read_text("utf-8").splitlines()
    at = lines.index("## Metrics") + 4
    end = lines.index("## How to read them") - 1
    if request.config.getoption("--update-golden"):
        path.write_text("\n".join([*lines[:at], *table(), *lines[end:]]) + "\n", "utf-8")
    else:
        assert lines[at:end] == table()


def expressions() -> Iterator[str]:
    """Those of the dashboard, with what Grafana puts in place of its variables."""
    for panel in json.loads((MONITORING / "dashboard.json").read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            yield re.sub(r"\$\w+", "x", target["expr"].replace("$__rate_interval", "5m"))


def names(text: str) -> set[str]:
    return {
        re.sub(r"_(bucket|sum|count)$", "", name) if "answer_seconds" in name else name
        for name in re.findall(r"dcpinspect_\w+", text)
    }


def test_alerts_and_dashboard_name_only_metrics_and_labels_that_exist() -> None:
    alerts = (MONITORING / "alerts.yml").read_text("utf-8")
    texts = [
        *expressions(),
        alerts,
        (MONITORING / "alerts_test.yml").read_text("utf-8"),
        (DOCS / "monitoring.md").read_text("utf-8"),
    ]
    assert len(list(expressions())) > 15
    for text in texts:
        assert names(text) - {family.name for family in FAMILIES} == set()
    known = {family.name: {*family.labels, "instance", "le"} for family in FAMILIES}
    for text in [*expressions(), alerts]:
        for name, matchers in re.findall(r"(dcpinspect_\w+)\{([^}]*)\}", text):
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= known[names(name).pop()], name


def promtool(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        ["promtool", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.requires("promtool")
def test_the_alert_rules_are_valid_and_pass_their_tests() -> None:
    assert "12 rules found" in promtool("check", "rules", "alerts.yml", cwd=MONITORING)
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml", cwd=MONITORING)
    alerts = re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text("utf-8"))
    tested = re.findall(
        r"alertname: (\w+)\n\s+exp_alerts:\n", (MONITORING / "alerts_test.yml").read_text("utf-8")
    )
    assert set(tested) == set(alerts)


@pytest.mark.requires("promtool")
def test_a_rule_that_is_changed_fails_its_test(tmp_path: Path) -> None:
    shutil.copytree(MONITORING, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "alerts.yml"
    path.write_text(
        path.read_text("utf-8").replace('verdict="behind"} > 0', 'verdict="behind"} > 5'), "utf-8"
    )
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0


@pytest.mark.requires("promtool")
def test_every_expression_of_the_dashboard_is_valid(tmp_path: Path) -> None:
    rules: Sequence[dict[str, str]] = [
        {"record": f"x{place}", "expr": one} for place, one in enumerate(expressions())
    ]
    (tmp_path / "rules.yml").write_text(
        json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8"
    )  # JSON is YAML
    assert f"{len(rules)} rules found" in promtool("check", "rules", "rules.yml", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("doubled", [translated, passed_on])
def test_no_number_counts_a_copy(doubled: Doubled, tmp_path: Path) -> None:
    packets = packets_of(real_server("6.0.5-dcp1"))
    for path in (tmp_path / "one", tmp_path / "two"):
        path.mkdir()
    alone = measured(captured(tmp_path / "one", packets))[-1]
    several = measured(captured(tmp_path / "two", doubled(packets)), batch_bytes=20_000)
    of_capture = re.compile("_capture_|_metrics_|_build_")
    for family in FAMILIES:
        if not of_capture.search(family.name):
            assert sorted(several[-1].get(family.name, ()), key=str) == sorted(
                alone.get(family.name, ()), key=str
            ), family.name
    for before, after in pairwise(map(counters, several)):
        assert all(after.get(name, 0) >= count for name, count in before.items())
