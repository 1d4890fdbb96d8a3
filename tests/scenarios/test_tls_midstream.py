"""Captures that begin inside a TLS connection: how far secrets and record numbers are tried, and
what is said of the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import dcpinspect
from dcpinspect.cli.main import main
from dcpinspect.scapy_layer.scapy_session import DCPSession
from dcpinspect.transport.tls import stage
from dcpinspect.transport.tls.keylog import SEARCH, command_secrets
from tests import builders
from tests.encode import encode
from tests.tls.damage import save, taped
from tests.tls.decrypted import read
from tests.tls.forged import Forged
from tests.tls.peers import Recorded, Tls

COUNT = 20
NUMBERS = (30_000, 70_000)
"""Of the first records that are captured."""


@pytest.fixture(autouse=True)
def without_key_logs() -> Iterator[None]:
    yield
    command_secrets.choose([])
    command_secrets.search = SEARCH


def midstream(folder: Path, tls: Tls, numbers: tuple[int, int] = NUMBERS) -> Recorded:
    """A connection of which the capture has 20 messages of each side, in records from these numbers
    on, and nothing before.
    """
    forged = Forged(folder, tls)
    begun = len(forged._talk.packets)
    if tls.version == "1.3":
        forged.numbers = [*numbers]
    for seqno in range(1, COUNT + 1):
        forged.send(1, builders.mutation(seqno, key=b"key-%d" % seqno))
        forged.send(0, encode("dcp_noop"))
    recorded = forged.finish()
    save(recorded.path, taped(recorded).packets[begun:])
    return recorded


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return midstream(tmp_path_factory.mktemp("tls"), Tls("1.3", "TLS_AES_256_GCM_SHA384"))


def ndjson(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "-f", "ndjson"]) in (0, 1, 2)  # 2: there was nothing to check
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_records_are_found_at_any_number(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["--keylog", str(recorded.keylog)]
    rows = ndjson(capsys, "read", str(recorded.path), *keys)
    assert [row["by_seqno"] for row in rows if row["name"] == "dcp_mutation"] == list(
        range(1, COUNT + 1)
    )
    (link,) = ndjson(capsys, "connections", str(recorded.path), *keys)
    assert (
        link["tls"]
        == f"TLS 1.3, TLS_AES_256_GCM_SHA384: {2 * COUNT} records read, 0 lost, 0 refused"
    )


def test_what_was_not_tried_is_told(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(recorded.path), "--keylog", str(recorded.keylog), "--tls-search"]
    told = (
        "its records up to number 5,000 were tried with the secrets of 1 connection; a larger "
        "--tls-search tries more"
    )
    (link,) = ndjson(capsys, "connections", *arguments, "20000")
    assert str(link["tls"]).endswith(told)
    (finding,) = [
        one
        for one in ndjson(capsys, "check", *arguments, "20000")
        if one["rule"] == "tls-key-unknown"
    ]
    assert told in str(finding["message"])
    assert len(ndjson(capsys, "read", *arguments, "200000")) == 2 * COUNT


def test_one_side_may_be_found_and_not_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = midstream(tmp_path, Tls("1.3", "TLS_AES_256_GCM_SHA384"), (3, 70_000))
    arguments = [str(recorded.path), "--keylog", str(recorded.keylog), "--tls-search", "50000"]
    (link,) = ndjson(capsys, "connections", *arguments)
    assert link["tls"] == (
        "TLS 1.3, TLS_AES_256_GCM_SHA384: 20 records read, 0 lost, 0 refused; "
        "its records up to number 50,000 were tried with the secrets of one side; a larger "
        "--tls-search tries more"
    )
    assert len(ndjson(capsys, "read", *arguments)) == COUNT


def test_a_side_that_is_silent_at_first_is_placed_when_it_speaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = Forged(tmp_path, Tls())
    begun, forged.numbers = len(forged._talk.packets), [*NUMBERS]
    for seqno in range(1, 400):
        forged.send(1, builders.mutation(seqno, key=b"key", value=b"x" * 1000))
    for _ in range(3):
        forged.send(0, encode("dcp_noop"))
    recorded = forged.finish()
    save(recorded.path, taped(recorded).packets[begun:])
    (link,) = ndjson(capsys, "connections", str(recorded.path), "--keylog", str(recorded.keylog))
    assert str(link["tls"]).endswith(": 402 records read, 0 lost, 0 refused")


def test_a_side_that_never_has_a_record_is_still_counted(tmp_path: Path) -> None:
    forged = Forged(tmp_path, Tls())
    begun, forged.numbers = len(forged._talk.packets), [*NUMBERS]
    for seqno in range(1, 400):
        forged.send(1, builders.mutation(seqno, key=b"key", value=b"x" * 1000))
    forged.send(0, encode("dcp_open", key=b"x" * 3000))
    recorded = forged.finish()
    packets = taped(recorded).packets[begun:]
    cut = [place for place, packet in enumerate(packets) if packet.size and not packet.flow[2]][1]
    save(recorded.path, packets[:cut])
    whole, _, _ = read(recorded.path, recorded.keylog)
    assert len(whole) == 399


@pytest.mark.parametrize(
    "suite", ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-SHA"]
)
@pytest.mark.parametrize("has_keys", [True, False])
def test_tls_1_2_without_its_handshake_says_that_it_cannot_be_read(
    has_keys: bool, suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = midstream(tmp_path, Tls("1.2", suite))
    arguments = [str(recorded.path), *(["--keylog", str(recorded.keylog)] if has_keys else [])]
    if "GCM" in suite:
        told = (
            "TLS 1.2, its start was not captured whole, and TLS 1.2 cannot be read without the "
            "handshake"
        )
    else:
        told = (
            "its start was not captured whole; if it is TLS 1.2, it cannot be read without the "
            "handshake"
        )
    rule = "tls-key-unknown" if has_keys else "tls-without-key"
    (finding,) = [one for one in ndjson(capsys, "check", *arguments) if one["rule"] == rule]
    assert told in str(finding["message"])
    (link,) = ndjson(capsys, "connections", *arguments)
    assert told.replace("TLS 1.2, its", "TLS 1.2: not decrypted; its") in str(link["tls"])
    main(["read", *arguments])
    if "GCM" in suite:
        advice = (
            "TLS 1.2 cannot be read without the handshake; capture it whole: before the client "
            "connects, both directions, with -s 0"
        )
    elif has_keys:
        advice = "the key log does not open it; 'dcpinspect connections' says why"
    else:
        advice = "give the client's key log with --keylog, or record the plain port (11210)"
    assert advice in capsys.readouterr().err


def test_after_many_connections_in_vain_fewer_numbers_are_tried(
    recorded: Recorded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stage, "SharedSecrets", partial(stage.SharedSecrets, in_vain=100))
    (link,) = ndjson(capsys, "connections", str(recorded.path), "--keylog", str(recorded.keylog))
    assert str(link["tls"]).endswith(
        "its records up to number 24,509 were tried with the secrets of 1 connection; a larger "
        "--tls-search tries more"
    )
    low = midstream(tmp_path, Tls("1.3", "TLS_AES_256_GCM_SHA384"), (20_000, 70_000))
    assert len(ndjson(capsys, "read", str(low.path), "--keylog", str(low.keylog))) == 2 * COUNT


@pytest.mark.parametrize("suite", ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
def test_many_secrets_are_tried_together(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low = midstream(tmp_path, Tls("1.3", suite), (500, 70_000))
    others = [
        f"{label} {number:064x} {number:064x}"
        for number in range(300)
        for label in ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
    ]
    low.keylog.write_text("\n".join([*low.keylog.read_text().splitlines(), *others, ""]))
    assert len(ndjson(capsys, "read", str(low.path), "--keylog", str(low.keylog))) == 2 * COUNT


def test_python_bounds_the_search_too(recorded: Recorded) -> None:
    for search, rows in ((1000, 0), (1_000_000, 2 * COUNT)):
        with dcpinspect.open(recorded.path, keylog=recorded.keylog, tls_search=search) as captures:
            assert sum(batch.num_rows for batch in captures.messages()) == rows
        assert (
            DCPSession(keylog=[str(recorded.keylog)], tls_search=search).engine.keys.search
            == search
        )
