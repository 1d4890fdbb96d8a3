"""TLS from hosts that mean harm, and streams damaged in any way: nothing is raised, invented, or
held up, and memory stays small.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dcpinspect.cli.main import main
from dcpinspect.transport.tls import direction, stage, suites
from dcpinspect.transport.tls.keylog import KeyLog
from dcpinspect.transport.tls.stage import TlsStage
from tests.damage import Talk
from tests.fuzz import tls
from tests.tls.damage import save
from tests.tls.invented import (
    HANDSHAKE_RECORD,
    KEY_UPDATE,
    Invented,
    chunks,
    lose,
    message,
    pieces,
    record,
)

SUITE = "TLS_AES_128_GCM_SHA256"
GCM_1_2 = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
CBC = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"


def read(
    talk: Invented, *, lost: Collection[int] = (), keys: KeyLog | None = None
) -> tuple[list[tuple[int, bytes]], TlsStage]:
    """Offset and bytes of each stretch that the server says."""
    found, made = tls.opened(
        keys or talk.keys(), chunks(lose(pieces(talk.writes), lost), [50] * 10_000)
    )
    return tls.texts(found, 1), made


programs = st.one_of(
    st.binary(max_size=120), st.randoms(use_true_random=False).map(lambda rng: rng.randbytes(100))
)


@pytest.mark.slow
@settings(max_examples=60)
@given(programs)
@example(bytes.fromhex("533e2463d8662a25af55e0"))
def test_any_damage_to_a_conversation_invents_nothing(program: bytes) -> None:
    tls.check(program)


def test_records_that_say_nothing_leave_no_hole_where_they_are_lost() -> None:
    talk = Invented(SUITE)
    talk.send(1, b"one")
    before = len(talk.writes)
    talk.send(1)
    talk.send(1, b"two")
    assert read(talk, lost={before})[0] == [(0, b"onetwo")]


@pytest.mark.parametrize("suite", [SUITE, GCM_1_2, CBC])
def test_holes_with_nothing_said_between_them_are_one(suite: str) -> None:
    talk = Invented(suite)
    talk.send(1, b"one")
    first = len(talk.writes)
    talk.send(1, b"lost")
    talk.send(1)
    talk.send(1, b"lost too")
    talk.send(1, b"two")
    found, made = read(talk, lost={first, first + 2})
    assert [text for _, text in found] == [b"one", b"two"]
    if suite != CBC:  # whose padding nobody knows
        assert found[1][0] == len("onelostlost too")
    assert made.connections[1].records[1].lost == 2


@pytest.mark.parametrize("suite", [SUITE, GCM_1_2, CBC])
def test_a_hole_behind_the_handshake_is_found_through(suite: str) -> None:
    talk = Invented(suite)
    first = len(talk.writes)
    talk.send(1, bytes(100))
    for number in range(9):
        talk.send(1, b"%d" % number)
    found, _ = read(talk, lost={first})
    assert found[-1][1] == b"012345678"


def opens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each record that is tried from now on."""
    tried: list[int] = []

    def counted(open_: Callable[..., object]) -> Callable[..., object]:
        def wrapped(self: object, sequence: int, record: bytes) -> object:
            tried.append(len(record))
            return open_(self, sequence, record)

        return wrapped

    for kind in (suites.Tls13, suites.Aead12, suites.Cbc12):
        monkeypatch.setattr(kind, "open", counted(kind.open))
    return tried


@pytest.mark.parametrize("suite", [SUITE, CBC])
@pytest.mark.parametrize("header", [b"\x17\x03\x03\x41\x00", b"\x17\x03\x03\x00\x40"])
def test_bytes_that_look_like_records_everywhere_cost_few_trials(
    header: bytes, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direction, "BURST", 2000)
    talk = Invented(suite)
    first = len(talk.writes)
    talk.raw(1, record(0, bytes(2000)))
    talk.raw(1, record(0, header * 12_000))
    tried = opens(monkeypatch)
    read(talk, lost={first})
    assert sum(1 + size // 4096 for size in tried) < 10 + 2000 + 65_000 // direction.BYTES_A_TRIAL


def test_records_of_other_keys_cost_few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direction, "BURST", 2000)
    talk, other = Invented(SUITE), Invented(SUITE, number=2)
    for _ in range(3000):
        talk.send(1, b"x")
    keys = KeyLog()
    keys.add(
        other.lines.replace(other.client_random.hex().encode(), talk.client_random.hex().encode())
    )
    tried = opens(monkeypatch)
    found, made = read(talk, keys=keys)
    assert found == []
    assert made.connections[1].records[1].refused > 3000
    assert len(tried) < 2 * 3010 + 2000 + 80_000 // direction.BYTES_A_TRIAL


def test_trials_come_back_with_the_bytes_that_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direction, "BURST", 100)
    talk = Invented(SUITE)
    first = len(talk.writes)
    talk.raw(1, record(0, b"\x17\x03\x03\x00\x40" * 2000))
    talk.send(1, b"x" * 5000)
    talk.send(1, b"two")
    packets = lose(pieces(talk.writes, 20_000), {first})
    found, _ = tls.opened(talk.keys(), chunks(packets))
    assert tls.texts(found, 1)[-1][1].endswith(b"two")


def test_handshakes_without_their_secrets_leave_no_hole() -> None:
    talk = Invented(SUITE)
    talk.send(1, b"said")
    keys = KeyLog()
    keys.add(b"\n".join(line for line in talk.lines.splitlines() if b"HANDSHAKE" not in line))
    found, _ = tls.opened(keys, chunks(pieces(talk.writes)))
    assert tls.texts(found, 1) == [(0, b"said")]
    assert next(chunk.is_start for chunk in found if chunk.direction == 1)


def test_floods_are_read() -> None:
    talk = Invented(SUITE)
    for _ in range(2000):
        talk.send(1)
    talk.update(1, times=500)
    for at, byte in enumerate(message(8, bytes(3000)) * 2):
        talk.send(1, bytes([byte]), kind=HANDSHAKE_RECORD)
        if at % 500 == 0:
            talk.send(1, b"\1\0", kind=21)
    talk.send(1, b"said")
    found, made = read(talk)
    assert found == [(0, b"said")]
    assert len(made.connections[1].records[1].alerts) == 10


@pytest.mark.parametrize("kind", [0, 20, 24, 255])
def test_content_types_that_mean_nothing_are_passed_over(kind: int) -> None:
    talk = Invented(SUITE)
    talk.send(1, b"one")
    talk.send(1, b"\1", kind=kind)
    talk.send(1, b"two")
    assert b"".join(text for _, text in read(talk)[0]) == b"onetwo"


def test_many_key_updates_in_one_record_are_no_harm() -> None:
    talk = Invented(SUITE)
    talk.send(1, message(KEY_UPDATE, b"\0") * 3000, kind=HANDSHAKE_RECORD)
    talk.send(1, b"x")
    assert read(talk)[0] == []


@pytest.mark.parametrize(
    "size", [0, 1, 16, 17, (1 << 14) + 257, (1 << 14) + 2048, (1 << 14) + 2049, 65_535]
)
@pytest.mark.parametrize("kind", [20, 21, 22, 23, 24])
def test_records_of_any_length_are_no_harm(kind: int, size: int) -> None:
    talk = Invented(SUITE)
    talk.send(1, b"one")
    for _ in range(4):
        talk.raw(1, bytes([kind, 3, 3]) + size.to_bytes(2, "big") + bytes(size))
    found, made = read(talk)
    assert found[0] == (0, b"one")
    about = made.connections[1].records[1]
    assert about.plain + about.overhead == sum(len(data) for side, data in talk.writes if side == 1)


def test_thousands_of_hellos_on_a_connection_are_one_handshake() -> None:
    talk = Invented(SUITE)
    talk.writes[:0] = [talk.writes[0]] * 2000
    parts = chunks(pieces(talk.writes))
    found, made = tls.opened(talk.keys(), parts)
    assert sum(len(chunk.data) for chunk in found) + sum(
        side.overhead for side in made.connections[1].records
    ) == sum(len(part.data) for part in parts)


def test_what_waits_for_keys_is_bounded_over_all_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage, "MOST_FOR_KEYS", 500_000)
    made, given, got = TlsStage(Invented(SUITE, number=99).keys()), 0, 0
    for number in range(1, 60):
        talk = Invented(SUITE, number=number)
        talk.writes = [(0, talk.writes[0][1]), (0, bytes(100_000))]
        for part in chunks(pieces(talk.writes), [10] * 20, connection=number, is_end=False):
            given += len(part.data)
            got += sum(len(chunk.data) for chunk in made.plain([part]))
            assert given - got <= 500_000
    assert got + sum(len(chunk.data) for chunk in made.plain([], is_last=True)) == given


def test_connections_that_have_left_keep_their_counts_alone() -> None:
    talk = Invented(SUITE)
    talk.send(1, b"said")
    _, made = read(talk)
    about = made.connections[1]
    overhead = about.records[1].overhead
    assert overhead > 0
    made.leave([1, 2])
    assert not made.connections
    assert made.left[1] == overhead


def test_names_that_would_steer_the_terminal_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;evil\x07\r\n\u202e[red]"
    talk = Invented(SUITE, host=evil.encode())
    packets = Talk(server_port=11207)
    packets.handshake()
    for side, data in talk.writes:
        packets.stream(side, data)
    packets.close()
    path = save(tmp_path / "x.pcap", packets.packets)
    for command in (
        ["check"],
        ["check", "--format", "json"],
        ["connections"],
        ["info"],
        ["connections", "--format", "csv"],
    ):
        main([*command, str(path)])
        told = "".join(capsys.readouterr())
        assert not set(told) & set("\x1b\x07\r\u202e"), command
        assert "evil" in told or command[0] != "check"


@given(st.randoms(use_true_random=False))
@settings(max_examples=12)
def test_any_key_log_is_read(rng: random.Random) -> None:
    talk = Invented(SUITE)
    data = bytearray(talk.lines)
    for _ in range(rng.randrange(20)):
        data[rng.randrange(len(data))] = rng.choice(b"\n\r \0#Zz09\xff")
    keys = KeyLog()
    keys.add(bytes(data))
    talk.send(1, b"said")
    assert read(talk, keys=keys)[0] in ([], [(0, b"said")])
