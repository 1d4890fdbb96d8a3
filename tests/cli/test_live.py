"""``dcpinspect live`` in namespaces, with the scripted peers: everything that was sent is decoded,
or counted as dropped.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import pytest

import dcpinspect
from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.reading.reading import Reading
from tests import builders
from tests.builders import Conversation
from tests.encode import encode
from tests.peers.endpoint import Wrap, bare
from tests.peers.network import NEEDS_ROOT, Plug, Wire, inside, ip, namespaces, tapped
from tests.peers.play import Said, play
from tests.peers.script import Story
from tests.peers.stories import STORIES
from tests.tls.peers import Contexts, Tls

pytestmark = [NEEDS_ROOT, pytest.mark.slow]
PROGRAM = [sys.executable, "-m", "dcpinspect"]


class Live:
    """``dcpinspect live`` in a namespace, listening."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.out: IO[str] = process.stdout
        self.told: list[str] = []
        while not self.told or "capturing" not in self.told[-1]:
            line = process.stderr.readline()
            assert line, self.told
            self.told.append(line.removesuffix("\n"))

    def messages(self, count: int) -> list[dict[str, Any]]:
        """The next rows of NDJSON."""
        return [json.loads(self.out.readline()) for _ in range(count)]

    def end(self, number: int = signal.SIGINT) -> list[str]:
        """The rest of what is printed after a signal; what was told is in ``told``."""
        self.process.send_signal(number)
        return self.rest()

    def rest(self) -> list[str]:
        """What is printed until it ends by itself."""
        assert self.process.stderr is not None
        out = self.out.read().splitlines()
        self.told += self.process.stderr.read().splitlines()
        self.process.wait()
        return out


@contextmanager
def live(namespace: str, *arguments: str) -> Iterator[Live]:
    command = ["ip", "netns", "exec", namespace, *PROGRAM, "live", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Live(process)
        finally:
            process.kill()


def told(story: Story, namespace: str, *, port: int = 11_210, wrap: Wrap = bare) -> list[Said]:
    """Tells a story on the loopback interface of a namespace, where every host has an address."""
    names = dict.fromkeys(name for talk in story for name in (talk.client, talk.server))
    hosts = {name: f"127.0.0.{number}" for number, name in enumerate(names, 1)}
    return play(
        story,
        hosts=hosts,
        port=port,
        at_server=lambda: inside(namespace),
        at_client=lambda: inside(namespace),
        wrap=wrap,
    )


def address(end: tuple[str, int]) -> str:
    return f"{end[0]}:{end[1]}"


def by_direction(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[int]]:
    """Lengths of the messages of each client, by direction, in order of the stream."""
    out: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in rows:
        out.setdefault((row["client"], row["direction"]), []).append(
            (row["stream_offset"], row["length"])
        )
    return {key: [length for _, length in sorted(found)] for key, found in out.items()}


def as_sent(said: list[Said]) -> dict[tuple[str, str], list[int]]:
    ways = [
        ((address(talk.client), way), data)
        for talk in said
        for way, data in (("c2s", talk.c2s), ("s2c", talk.s2c))
    ]
    return {key: [len(message) for message in data] for key, data in ways if data}


@pytest.fixture
def namespace() -> Iterator[str]:
    with namespaces("live") as (name,):
        yield name


@pytest.mark.parametrize("interface", ["lo", "any"])
def test_everything_that_was_sent_is_printed_as_it_comes(interface: str, namespace: str) -> None:
    with live(namespace, "-i", interface, "-f", "ndjson", "--no-fields") as running:
        said = told(STORIES["snapshots"](), namespace)
        sent = as_sent(said)
        rows = running.messages(sum(map(len, sent.values())))
        assert running.end() == []
    assert by_direction(rows) == sent
    assert [row["row"] for row in rows] == list(range(1, len(rows) + 1))
    assert running.process.returncode == 0
    count = len(rows)
    assert (
        running.told[0] == f"dcpinspect: {interface}: capturing ports 11207, 11210; Ctrl-C stops it"
    )
    assert re.fullmatch(
        (
            rf"dcpinspect: {interface}: [\d,]+ packets captured, 0 dropped by the kernel; {count} "
            rf"messages, {count} shown"
        ),
        running.told[1],
    )
    assert running.told[2:] == []


@pytest.mark.deep  # the rest of it is in tests/scenarios/test_tls_late_keys.py
def test_packets_wait_for_a_key_log_that_is_written_later(namespace: str, tmp_path: Path) -> None:
    keylog, contexts = tmp_path / "late.log", Contexts(tmp_path, Tls())
    keylog.touch()
    with live(
        namespace, "-i", "lo", "-f", "ndjson", "--no-fields", "--keylog", str(keylog)
    ) as running:
        said = told(STORIES["snapshots"](), namespace, port=11_207, wrap=contexts.wrap)
        keylog.write_bytes(contexts.keylog.read_bytes())
        sent = as_sent(said)
        rows = running.messages(sum(map(len, sent.values())))
        assert running.end() == []
    assert by_direction(rows) == sent


def test_what_is_wrong_is_said_as_it_is_found_and_put_together_at_the_end(
    namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    with live(
        namespace, "-i", "lo", "-w", str(path), "--check", "-f", "ndjson", "--opcode", "dcp_flush"
    ) as running:
        told(STORIES["rollback"](), namespace)
        first = running.messages(1)
        rest = [json.loads(line) for line in running.end()]
    found = first + rest
    assert {record["schema"] for record in found} == {"dcpinspect.finding/1"}
    assert not first[0]["is_final"]
    early = {
        (one["rule"], *one["vbuckets"])
        for one in found
        if not one["is_final"] and one["rule"] == "rollback"
    }
    assert early <= {("rollback", 7), ("rollback", 9), ("rollback", 10)}
    with Reading([str(path)]) as reading:
        reading.check()
        list(reading)
        expected = [(one.rule, one.message, one.count) for one in reading.findings()]
    assert [
        (one["rule"], one["message"], one["count"]) for one in found if one["is_final"]
    ] == expected
    assert running.process.returncode == 0


def test_what_is_recorded_meanwhile_reads_the_same(
    namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcapng"
    with live(namespace, "-i", "lo", "-w", str(path), "-f", "ndjson") as running:
        sent = as_sent(told(STORIES["rollback"](), namespace))
        rows = running.messages(sum(map(len, sent.values())))
        running.end()
    assert main(["read", str(path), "-f", "ndjson"]) == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row | {"file": ""} for row in again] == [row | {"file": ""} for row in rows]
    assert {row["file"] for row in rows} == {"lo"}


def test_lines_and_options_are_those_of_read(
    namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcapng"
    options = ["--opcode", "dcp_snapshot_marker", "-V", "-x", "--skip", "1", "--time", "absolute"]
    with live(namespace, "-i", "lo", "-w", str(path), *options) as running:
        told(STORIES["snapshots"](), namespace)
        first = [running.out.readline() for _ in range(2)]
        lines = [line.removesuffix("\n") for line in first] + running.end()
    assert main(["read", str(path), *options]) == 0
    # columns of a whole capture fit what it has, those of a live one what may come
    read_lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [line.split() for line in read_lines]
    assert len(lines) > 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_file_asked_for_is_complete_at_the_end(
    number: int, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    with live(
        namespace, "-i", "lo", "-o", str(path), "--columns", "row", "-w", str(tmp_path / "x.pcapng")
    ) as running:
        sent = as_sent(told(STORIES["rollback"](), namespace))
        count = sum(map(len, sent.values()))
        while read_rows(tmp_path / "x.pcapng") < count:
            pass
        assert not path.exists()
        running.end(number)
    assert running.process.returncode == 0
    assert path.read_text().splitlines()[1:] == [str(row) for row in range(1, count + 1)]


@pytest.mark.parametrize("delay_s", [0.2, 0.25, 0.3, 0.35, 0.4])
def test_ctrl_c_while_it_starts_names_the_file_that_is_there(
    delay_s: float, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    within = ["ip", "netns", "exec", namespace]
    traffic = "import socket\nwhile True: socket.socket().connect_ex(('127.0.0.1', 11210))"
    with (
        subprocess.Popen([*within, sys.executable, "-c", traffic]) as client,
        subprocess.Popen(
            [*within, *PROGRAM, "live", "-i", "lo", "-w", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        client.kill()
    assert f" in {path}" in err or not path.exists()


def test_a_recorder_that_does_not_run_ends_with_the_program(namespace: str) -> None:
    with live(namespace, "-i", "lo") as running:
        children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
        recorder = int(children.read_text())
        os.kill(recorder, signal.SIGSTOP)
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        running.end()
    assert running.process.returncode == 130
    end = time.monotonic() + 60
    while Path(f"/proc/{recorder}").exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def read_rows(path: Path) -> int:
    """Messages in a capture that is being written."""
    done = subprocess.run(
        [*PROGRAM, "read", str(path), "-f", "csv", "--columns", "row"],
        capture_output=True,
        text=True,
        check=False,
    )
    return max(0, len(done.stdout.splitlines()) - 1)


def test_it_ends_by_itself_after_so_many_messages_or_seconds(namespace: str) -> None:
    with live(namespace, "-i", "lo", "-n", "5") as running:
        told(STORIES["snapshots"](), namespace)
        assert (len(running.rest()), running.process.returncode) == (6, 0)
    with live(namespace, "-i", "lo", "--duration", "0.3", "--stats") as running:
        assert (len(running.rest()), running.process.returncode) == (1, 0)
    assert (
        "dcpinspect: lo: no packets of the ports looked at; try -i any, or --port auto"
        in running.told
    )
    assert "           0 packets read" in running.told


def test_a_message_is_printed_while_the_connection_is_silent_behind_a_hole() -> None:
    """And one at a start in the middle of a stream: nothing more comes to prove it."""
    one = Conversation(mss=100)
    one.stream(False, builders.mutation(1) + builders.mutation(2))
    one.stream(
        False,
        b"".join(builders.mutation(seqno, value=b"v" * 150) for seqno in range(3, 9)),
        ack_every=1,
    )
    lost = one.segments[-8]
    assert len(lost.payload) == 100
    with (
        tapped("silent") as (name, fd),
        live(name, "-i", "eth0", "-f", "ndjson", "--no-fields") as running,
    ):
        for segment in one.segments:
            if segment is not lost:
                os.write(fd, builders.frame(segment))
        rows = running.messages(8)
        running.end()
    assert [row["by_seqno"] for row in rows] == list(range(1, 9))
    assert sum(end - start for row in rows for start, end in row["missing"]) == 100
    assert "100 bytes are not in the capture (1 hole" in running.told[-1]


def flood(
    namespace: str, count: int, size: int, *, before_last: Callable[[], object] = lambda: None
) -> list[bytes]:
    """Sends mutations as fast as the loopback interface takes them, the last ones after
    ``before_last``; the messages.
    """
    messages = [
        encode("dcp_mutation", by_seqno=seqno, key=b"k%06d" % seqno, value=bytes(size))
        for seqno in range(1, count + 1)
    ]
    with inside(namespace):
        server = socket.create_server(("127.0.0.1", 11_210))
        client = socket.create_connection(("127.0.0.1", 11_210))
        peer, _ = server.accept()
    with server, client, peer:
        client.sendall(encode("dcp_stream_req"))
        first, last = b"".join(messages[:-50]), b"".join(messages[-50:])
        for part in (*(first[at : at + (1 << 18)] for at in range(0, len(first), 1 << 18)), last):
            if part is last:
                before_last()
            peer.sendall(part)
            received = 0
            while received < len(part):
                received += len(client.recv(1 << 20))
    return messages


def summary(running: Live) -> tuple[int, int, int]:
    """Packets captured, packets dropped, messages."""
    found = re.search(
        r"([\d,]+) packets captured, ([\d,]+) dropped by the kernel; ([\d,]+) messages",
        "\n".join(running.told),
    )
    assert found is not None
    captured, dropped, messages = (int(number.replace(",", "")) for number in found.groups())
    return captured, dropped, messages


def test_a_burst_is_decoded_whole(namespace: str) -> None:
    with live(namespace, "-i", "lo", "-f", "csv", "--columns", "by_seqno") as running:
        messages = flood(namespace, 20_000, 500)
        lines = [running.out.readline() for _ in range(len(messages) + 2)]
        running.end()
    assert lines[2:] == [f"{seqno}\n" for seqno in range(1, len(messages) + 1)]
    assert summary(running)[1:] == (0, len(messages) + 1)


def test_what_is_not_decoded_was_counted_as_dropped(namespace: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ndjson"
    with live(namespace, "-i", "lo", "-o", str(path), "--no-fields", "--buffer", "4") as running:
        recorder = int(
            Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text()
        )

        def wake() -> None:
            os.kill(recorder, signal.SIGCONT)
            assert running.process.stderr is not None
            running.told.append(running.process.stderr.readline())

        os.kill(recorder, signal.SIGSTOP)
        messages = flood(namespace, 20_000, 1000, before_last=wake)
        assert "the kernel's buffer of 4 MiB was full and packets were dropped" in running.told[-1]
        assert running.end() == []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    captured, dropped, count = summary(running)
    assert dropped > 0
    assert captured > 0
    assert len(rows) == count < len(messages)

    starts = dict(zip(accumulate(map(len, messages), initial=0), messages, strict=False))
    server = [row for row in rows if row["direction"] == "s2c"]
    for row in server:
        message = starts[row["stream_offset"]]
        assert (row["length"], row["by_seqno"]) == (
            len(message),
            int.from_bytes(message[24:32], "big"),
        )
    assert server[-1]["by_seqno"] == len(messages)
    told = " ".join(running.told).replace(",", "")
    missing = int(re.findall(r"(\d+) bytes are not in the capture", told)[0])
    skipped = sum(map(int, re.findall(r"(\d+) bytes skipped up to the next message", told)))
    decoded = sum(
        row["length"] - sum(end - start for start, end in row["missing"]) for row in server
    )
    assert decoded + skipped + missing == sum(map(len, messages))


@pytest.mark.parametrize("ring", [(), ("-b", "filesize:200kB")])
def test_a_full_disk_ends_it_with_the_reason_and_the_numbers(
    ring: tuple[str, ...], namespace: str, tmp_path: Path
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=True)
    try:
        with live(
            namespace,
            "-i",
            "lo",
            "-w",
            str(tmp_path / "x.pcapng"),
            "-f",
            "csv",
            "--columns",
            "by_seqno",
            *ring,
        ) as running:
            running.out.readline()
            flood(namespace, 4_000, 500)
            rows = running.rest()
        recorded = read_rows(tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert running.process.returncode == 2
    captured, *_, reason = running.told[-3:]
    assert re.fullmatch(
        r"dcpinspect: lo: [\d,]+ packets captured in .*x\.pcapng, 0 dropped by the kernel; "
        rf"{len(rows):,} messages, {len(rows):,} shown",
        captured,
    ), running.told
    assert reason == (
        f"dcpinspect: --write {tmp_path}/x.pcapng: No space left on device; it has the packets "
        "before that"
    )
    assert len(rows) == recorded


@pytest.mark.parametrize("ring", [(), ("-b", "packets:20")])
def test_an_output_has_what_was_captured_until_the_recording_could_not_go_on(
    ring: tuple[str, ...], namespace: str, tmp_path: Path
) -> None:
    folder, path = tmp_path / "recorded", tmp_path / "x.csv"
    folder.mkdir()
    path.write_text("of yesterday")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    recording = ["-i", "lo", "-w", str(folder / "x.pcapng"), *ring]
    try:
        with live(namespace, *recording, "-o", str(path), "--columns", "by_seqno") as running:
            if ring:
                told(STORIES["rollback"](), namespace)
                subprocess.run(["umount", "-l", str(folder)], check=True)
                folder.rmdir()
            flood(namespace, 4_000, 500)
            running.rest()
    finally:
        subprocess.run(["umount", str(folder)], check=False)
    assert running.process.returncode == 2
    assert running.told[-1].startswith(f"dcpinspect: --write {folder}/x.pcapng: ")
    (shown,) = re.findall(r"([\d,]+) shown", " ".join(running.told))
    rows = path.read_text().splitlines()[1:]
    assert len(rows) == int(shown.replace(",", "")) > 0


def test_what_is_stopped_and_goes_on_has_lost_nothing_that_it_does_not_count(
    namespace: str, tmp_path: Path
) -> None:
    """As with Ctrl-Z and fg, ten times, while messages come."""
    path = tmp_path / "x.ndjson"
    with live(namespace, "-i", "lo", "-o", str(path), "--no-fields") as running:
        pid = running.process.pid
        both = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

        def stop_and_go() -> None:
            for _ in range(10):
                for number in (signal.SIGSTOP, signal.SIGCONT):
                    for process in both:
                        os.kill(process, number)
                    time.sleep(0.05)

        stopping = threading.Thread(target=stop_and_go)
        stopping.start()
        messages = flood(namespace, 5_000, 500, before_last=stopping.join)
        running.end()
    _, dropped, count = summary(running)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == count
    seqnos = [row["by_seqno"] for row in rows if row["direction"] == "s2c"]
    assert dropped or seqnos == list(range(1, len(messages) + 1))
    assert seqnos[-1] == len(messages)


def test_an_output_that_nobody_reads_stops_neither_the_recording_nor_ctrl_c(
    namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    with live(namespace, "-i", "lo", "-w", str(path)) as running:
        messages = flood(namespace, 20_000, 100)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(120) == 130
        assert running.process.stderr is not None
        *_, line = (
            running.process.stderr.read().splitlines()
        )  # before it may be told how far behind it is
    found = re.fullmatch(
        (
            rf"dcpinspect: lo: ([\d,]+) packets captured in {re.escape(str(path))}, 0 dropped by "
            r"the kernel, ([\d,]+) left unread"
        ),
        line,
    )
    assert found is not None
    assert read_rows(path) == len(messages) + 1
    with open_capture(path) as capture:
        assert sum(map(len, capture)) == int(found[1].replace(",", ""))


def test_vlans_and_fragments_are_read_as_in_files() -> None:
    from scapy.layers.inet import IP
    from scapy.layers.inet import fragment as split
    from scapy.layers.l2 import Ether

    one = Conversation(mss=1200)
    one.handshake()
    one.stream(
        False, b"".join(builders.mutation(seqno, value=b"v" * 500) for seqno in range(1, 21))
    )
    with (
        tapped("vlan") as (name, fd),
        live(name, "-i", "eth0", "-f", "csv", "--columns", "by_seqno") as running,
    ):
        for number, segment in enumerate(one.segments):
            frame = builders.frame(segment, vlans=[(), (5,), (5, 6)][number % 3])
            if number % 3 or len(segment.payload) < 1000:
                os.write(fd, frame)
            else:
                pieces: list[Any] = split(IP(frame[14:]), 600)  # type: ignore[no-untyped-call] # Scapy's
                for piece in pieces:
                    os.write(
                        fd, bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / piece)
                    )
        lines = [running.out.readline() for _ in range(21)]
        running.end()
    assert lines[1:] == [f"{seqno}\n" for seqno in range(1, 21)]


def test_both_ends_of_a_wire_show_the_same() -> None:
    with namespaces("a", "b") as (a, b):
        left, right = (
            Plug(a, "02:00:00:00:00:01", ("10.11.0.1/24",)),
            Plug(b, "02:00:00:00:00:02", ("10.11.0.2/24", "10.11.0.3/24")),
        )
        with (
            Wire(left, right),
            live(a, "-i", "eth0", "-f", "ndjson") as here,
            live(b, "-i", "any", "-f", "ndjson") as there,
        ):
            story = STORIES["rollback"]()
            hosts = {talk.client: "10.11.0.1" for talk in story} | {
                talk.server: f"10.11.0.{2 + number}" for number, talk in enumerate(story)
            }
            sent = as_sent(
                play(
                    story,
                    hosts=hosts,
                    port=11_210,
                    at_server=lambda: inside(b),
                    at_client=lambda: inside(a),
                )
            )
            count = sum(map(len, sent.values()))
            for running in (here, there):
                assert by_direction(running.messages(count)) == sent
                assert running.end() == []


def test_an_interface_that_is_removed_ends_with_what_there_was() -> None:
    one = Conversation()
    one.handshake()
    one.stream(False, b"".join(builders.mutations(5)))
    with tapped("down") as (name, fd), live(name, "-i", "eth0", "-f", "ndjson") as running:
        for segment in one.segments:
            os.write(fd, builders.frame(segment))
        ip("-n", name, "link", "delete", "eth0")
        assert (len(running.rest()), running.process.returncode) == (5, 3)
    what = (
        "the interface is gone (Network is down); start again when it is back, or wait for it "
        "with --wait; all that is readable was read"
    )
    assert f"dcpinspect: eth0: {what}" in running.told


def test_each_interface_has_its_name_and_counts_in_the_recording(
    namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    ip("-n", namespace, "tuntap", "add", "eth7", "mode", "tap")
    ip("-n", namespace, "link", "set", "eth7", "up")
    with live(namespace, "-i", "eth7", "-i", "lo", "-w", str(path)) as running:
        sent = as_sent(told(STORIES["rollback"](), namespace))
        while read_rows(path) < sum(map(len, sent.values())):
            pass
        running.end()
    command = ["tshark", "-r", str(path), "-T", "fields", "-e", "frame.interface_name"]
    assert set(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    ) == {"lo"}
    described = subprocess.run(
        ["capinfos", "-I", str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"Name = (\w+)", described) == ["eth7", "lo"]
    assert re.findall(r"Number of stat entries = (\d+)", described) == ["1", "1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_script_that_runs_it_in_the_background_ends_it_whole(number: int, namespace: str) -> None:
    """A shell has SIGINT ignored by what it runs with ``&``."""
    command = [
        "sh",
        "-c",
        'trap "" INT; exec "$@"',
        "sh",
        "ip",
        "netns",
        "exec",
        namespace,
        *PROGRAM,
    ]
    with subprocess.Popen(
        [*command, "live", "-i", "lo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            running = Live(process)
            told(STORIES["rollback"](), namespace)
            running.process.send_signal(signal.SIGINT)
            lines = [running.out.readline() for _ in range(10)]
            running.end(number)
        finally:
            process.kill()
    assert all(lines)
    assert running.process.returncode == 0
    assert "0 dropped by the kernel" in running.told[-1]


def test_a_reader_that_has_enough_ends_it_without_a_word(namespace: str) -> None:
    with live(namespace, "-i", "lo", "-f", "ndjson") as running:
        running.out.close()
        told(STORIES["rollback"](), namespace)
        assert running.process.stderr is not None
        assert running.process.stderr.read() == ""
    assert running.process.wait() == 141


def test_nothing_needs_to_be_printed_to_record(namespace: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    with live(namespace, "-i", "lo", "-w", str(path), "-o", os.devnull) as running:
        sent = as_sent(told(STORIES["rollback"](), namespace))
        assert running.end() == []
    assert running.process.returncode == 0
    assert read_rows(path) == sum(map(len, sent.values()))


def test_a_file_that_another_run_records_to_is_refused(namespace: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    with live(namespace, "-i", "lo", "-w", str(path), "-o", os.devnull) as running:
        sent = as_sent(told(STORIES["rollback"](), namespace))
        count = sum(map(len, sent.values()))
        for command in ("live", "watch"):
            options = [command, "-i", "lo", "-w", str(path), "--duration", "9"]
            done = subprocess.run(
                ["ip", "netns", "exec", namespace, *PROGRAM, *options],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == (
                f"dcpinspect: --write {path}: another program records to it; name another file\n"
            )
        sent = as_sent(told(STORIES["rollback"](), namespace))
        count += sum(map(len, sent.values()))
        running.end()
    assert running.process.returncode == 0
    assert read_rows(path) == count


@pytest.mark.parametrize("what", ["deleted", "emptied"])
def test_a_recording_that_somebody_takes_away_is_no_success(
    what: str, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    with live(namespace, "-i", "lo", "-w", str(path), "-f", "ndjson", "--no-fields") as running:
        count = sum(map(len, as_sent(told(STORIES["rollback"](), namespace)).values()))
        assert len(running.messages(count)) == count
        if what == "deleted":
            path.unlink()
        else:
            os.truncate(path, 0)
        told(STORIES["rollback"](), namespace)
        assert len(running.messages(count)) == count
        assert running.end() == []
    assert running.process.returncode == 3
    (line,) = (line for line in running.told if "while" in line)
    assert line.startswith(f"dcpinspect: {path}: was {what}, or ")


def test_a_user_who_may_not_read_the_program_leaves_no_file(tmp_path: Path) -> None:
    program = tmp_path / "dcpinspect"
    program.symlink_to(Path(dcpinspect.__file__).parent)
    tmp_path.chmod(0o700)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # noqa: S103 - where that user can write
        done = subprocess.run(
            [*PROGRAM, "live", "-i", "lo", "-w", f"{folder}/x.pcapng", "--user", "nobody"],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 2
        assert "--user nobody: this user may not read the program" in done.stderr
        assert os.listdir(folder) == []


@pytest.mark.parametrize("snaplen", [0, 60, 300_000, 99_999_999_999])
def test_a_packet_is_captured_up_to_the_snaplen(
    snaplen: int, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    with live(namespace, "-i", "lo", "-w", str(path), "-s", str(snaplen)) as running:
        told(STORIES["rollback"](), namespace)
        running.end()
    with open_capture(path) as capture:
        sizes = [
            (int(size), int(wire))
            for batch in capture
            for size, wire in zip(batch.captured, batch.wire, strict=True)
        ]
    assert [size for size, _ in sizes] == [min(wire, snaplen or wire) for _, wire in sizes]
    assert max(wire for _, wire in sizes) > 60
    assert subprocess.run(["capinfos", str(path)], capture_output=True, check=False).returncode == 0


@pytest.mark.requires("setpriv")
def test_another_user_decodes_from_temporary_files(namespace: str, tmp_path: Path) -> None:
    """Where that user may read the program; it is said otherwise."""
    import dcpinspect

    tmp_path.chmod(0o1777)
    for folder in tmp_path.parents[: len(tmp_path.parents) - 2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    as_nobody = ["setpriv", "--reuid=nobody", "--clear-groups", "test", "-r"]
    readable = [
        subprocess.run([*as_nobody, file or ""], check=False).returncode == 0
        for file in (os.__file__, dcpinspect.__file__)
    ]
    command = [
        "ip",
        "netns",
        "exec",
        namespace,
        *PROGRAM,
        "live",
        "-i",
        "lo",
        "--user",
        "nobody",
        "--duration",
        "1",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    if all(readable):
        assert (done.returncode, "0 dropped by the kernel; 0 messages, 0 shown" in done.stderr) == (
            0,
            True,
        )
    else:
        assert done.returncode == 2
        assert re.fullmatch(
            (
                r"dcpinspect: --user nobody: this user may not read the program \(.*\); install it "
                r".*\n"
            ),
            done.stderr,
        )
    assert list(tmp_path.iterdir()) == []


def test_packets_on_any_port_are_recorded_where_the_protocol_is_to_be_found(
    namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.pcapng"
    with live(namespace, "-i", "lo", "--port", "auto", "-w", str(path), "-f", "ndjson") as running:
        story = STORIES["rollback"]()
        said = told(story, namespace, port=12_345)
        count = sum(map(len, as_sent(said).values()))
        assert len(running.messages(count)) == count
        running.end()
    assert running.told[0] == "dcpinspect: lo: capturing all ports; Ctrl-C stops it"
    with open_capture(path) as capture:
        assert sum(map(len, capture)) > 50


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["live", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("dcpinspect: ")


def test_what_is_asked_wrongly_says_what_is_right(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert fails(capsys) == "-i: name an interface, or any for all of them; -D lists them"
    assert fails(capsys, "-i", "nope").startswith("-i nope: there is no such interface; there are ")
    assert (
        fails(capsys, "-i", "lo", "-w", "-")
        == "--write -: standard output already has the messages; name a file"
    )
    assert (
        fails(capsys, "-i", "lo", "-w", "x", "-o", "x") == "--write and --output name the same file"
    )
    assert fails(capsys, "-i", "lo", "-w", "x", "--redact").startswith(
        "--write: packets have what --redact replaces"
    )
    assert fails(capsys, "-i", "lo", "--opcode", "nope").startswith("--opcode nope: ")
    assert (
        fails(capsys, "-i", "lo", "-w", "/dev/null")
        == "--write /dev/null: is not a file; packets are read back from where they are recorded"
    )
    assert (
        fails(capsys, "-i", "lo", "-b", "filesize:1")
        == "-b: is for the files of -w; name one, as in -w night.pcapng"
    )
    assert (
        fails(capsys, "-i", "lo", "-w", "x", "-b", "files:3")
        == "-b files: say when a new file begins, as in -b filesize:100MB"
    )
    known = "write filesize:N, duration:N, packets:N or files:N"
    assert (
        fails(capsys, "-i", "lo", "-w", "x", "-b", "filesise:3")
        == f"-b filesise:3: {known}; did you mean filesize or files?"
    )
    assert fails(capsys, "-i", "lo", "-w", "x", "-b", "3") == f"-b 3: {known}"
    assert (
        fails(capsys, "-i", "lo", "-a", "filesize:x")
        == "-a filesize:x: write a size such as 100MB, 2GiB, or a number of kB"
    )
    assert (
        fails(capsys, "-i", "lo", "-a", "packets:0")
        == "-a packets:0: write a whole number, 1 or more"
    )
    assert (
        fails(capsys, "-i", "lo", "-a", "duration:-1")
        == "-a duration:-1: write a number of seconds"
    )
    assert fails(capsys, "-i", "lo", "--spool", "1MB") == "--spool 1MB: write 16MiB or more"
    size = "write a size such as 100MB, 2GiB, or a number of kB"
    assert fails(capsys, "-i", "lo", "--spool", "0") == f"--spool 0: {size}"
    assert fails(capsys, "-i", "lo", "-n", "0") == "-n 0: would capture nothing; write 1 or more"
    assert (
        fails(capsys, "-i", "lo", "--user", "no\x1bbody")
        == "--user no\\x1bbody: there is no such user"
    )
    back = "--wait: an interface that is back cannot be opened by --user; leave out one of the two"
    assert fails(capsys, "-i", "lo", "--user", "nobody", "--wait") == back
    for number in ("nan", "inf"):
        assert (
            fails(capsys, "-i", "lo", "--duration", number)
            == f"--duration {number}: write a number of seconds"
        )
    missing = tmp_path / "none" / "x"
    assert (
        fails(capsys, "-i", "lo", "-w", str(missing))
        == f"--write {missing}: cannot be written to (No such file or directory)"
    )
    assert fails(capsys, "-i", "lo", "--buffer", "0").startswith(
        "--buffer 0: write a whole number from 4 to 2047"
    )


def test_interfaces_are_listed_with_what_comes_there(namespace: str) -> None:
    command = ["ip", "netns", "exec", namespace, *PROGRAM, "live", "-D"]
    ip("-n", namespace, "tuntap", "add", "eth7", "mode", "tap")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            told(STORIES["rollback"](), namespace)
        assert process.stdout is not None
        first, *rest = process.stdout.read().splitlines()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert re.fullmatch(r"lo    127\.0\.0\.1, ::1  [\d,]+ packets of the ports in 1 s", first)
    assert [line.split()[0] for line in rest] == ["eth7", "any"]
    assert rest[0].split() == ["eth7", "down"]


@pytest.mark.requires("setpriv")
def test_without_the_right_to_capture_interfaces_are_listed_all_the_same() -> None:
    drop = "-net_raw,-net_admin"
    command = ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}", *PROGRAM, "live", "-D"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1].split() == ["any", "all", "of", "them"]
    assert done.stderr == (
        "dcpinspect: whether there is traffic on the ports can be seen with the right to "
        "capture; run it with sudo\n"
    )
