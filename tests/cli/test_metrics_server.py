"""The server of ``--metrics``: what is served, to whom, and what those who ask cannot do."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dcpinspect.cli.main import main
from dcpinspect.cli.metrics_server import MOST
from tests.cli.test_live import live, told
from tests.peers.network import NEEDS_ROOT, namespaces
from tests.peers.stories import STORIES
from tests.peers.truth import SAMPLES

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-m", "dcpinspect"]
ROLLBACK = str(SAMPLES / "rollback.pcap")
DEADLINE_S = 60.0


class Served:
    """``dcpinspect read --follow`` of a sample, whose numbers are served."""

    def __init__(self, process: subprocess.Popen[str], at: tuple[str, int]) -> None:
        self.process = process
        self.at = at
        self.url = f"http://{at[0]}:{at[1]}/metrics"

    def text(self, accept: str = "*/*") -> str:
        with urllib.request.urlopen(  # noqa: S310 - ours
            urllib.request.Request(self.url, headers={"Accept": accept}),  # noqa: S310 - ours
            timeout=120,
        ) as answer:
            return str(answer.read(), "utf-8")


@contextmanager
def served(*arguments: str, path: str = ROLLBACK) -> Iterator[Served]:
    command = [*PROGRAM, "read", path, "--follow", "--metrics", "127.0.0.1:0", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.fullmatch(
                r"dcpinspect: metrics are served at http://(127\.0\.0\.1):(\d+)/metrics\n", line
            )
            assert found is not None, line + process.stderr.read()
            yield Served(process, (found[1], int(found[2])))
        finally:
            process.kill()


def until(condition: Callable[[], Any]) -> Any:
    """What it gives once that is something."""
    end = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)
    return found


def sample(text: str, name: str) -> dict[str, float]:
    """Labels and values of a metric."""
    return {
        found[1] or "": float(found[2])
        for found in re.finditer(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE)
    }


def rollbacks(one: Served) -> float:
    return sum(sample(one.text(), "dcpinspect_rollbacks_total").values())


def test_the_numbers_are_served_with_words_for_each_of_them() -> None:
    with served() as one:
        until(lambda: rollbacks(one) == 3)
        text = one.text()
        assert sample(text, "dcpinspect_rollbacks_total") == {
            '{bucket="travel",client="10.11.0.1 mirror"}': 3
        }
        assert (
            "# HELP dcpinspect_rollbacks_total Stream requests that were answered with a "
            "rollback.\n"
        ) in text
        assert "# TYPE dcpinspect_answer_seconds histogram\n" in text
        assert sample(text, "process_resident_memory_bytes")
        assert one.text("application/openmetrics-text; version=1.0.0").endswith("# EOF\n")


@pytest.mark.requires("promtool")
@pytest.mark.parametrize("name", ["rollback.pcap", "tour.pcapng", "midstream.pcap"])
def test_promtool_finds_nothing_to_complain_about(name: str) -> None:
    with served(path=str(SAMPLES / name)) as one:
        until(lambda: sample(one.text(), "dcpinspect_messages_total"))
        done = subprocess.run(
            ["promtool", "check", "metrics"],
            input=one.text(),
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_pipe_that_is_silent_after_a_while_has_all_its_numbers_served() -> None:
    command = [*PROGRAM, "read", "-", "--metrics", "127.0.0.1:0"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload] # as keywords
        try:
            found = re.search(rb":(\d+)/", process.stderr.readline())
            assert found is not None
            one = Served(process, ("127.0.0.1", int(found[1])))
            process.stdin.write(Path(ROLLBACK).read_bytes())
            process.stdin.flush()
            until(lambda: rollbacks(one) == 3)
            process.stdin.close()
            assert process.wait(120) == 0
        finally:
            process.kill()


def test_watch_serves_them_beside_its_findings() -> None:
    command = [*PROGRAM, "watch", "--follow", ROLLBACK, "--metrics", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            found = re.search(r":(\d+)/", process.stderr.readline())
            assert found is not None
            one = Served(process, ("127.0.0.1", int(found[1])))
            until(lambda: rollbacks(one) == 3)
            process.send_signal(signal.SIGTERM)
            assert "rollback" in process.communicate(timeout=120)[0]
            assert process.returncode == 0
        finally:
            process.kill()


def test_those_who_ask_often_get_the_same_numbers_for_a_second() -> None:
    with served() as one:
        until(lambda: rollbacks(one) == 3)
        begin = time.monotonic()
        made = [*sample(one.text(), "dcpinspect_metrics_snapshot_timestamp_seconds").values()]
        while time.monotonic() - begin < 3:
            made += sample(one.text(), "dcpinspect_metrics_snapshot_timestamp_seconds").values()
    times = sorted(set(made))
    assert len(made) > len(times) > 1
    assert min(after - before for before, after in pairwise(times)) >= 1


def test_only_the_numbers_are_there_and_only_to_be_read() -> None:
    with served() as one:
        for path, method, status in (
            ("/x", "GET", 404),
            ("/metrics", "POST", 501),
            ("/", "GET", 200),
        ):
            with socket.create_connection(one.at) as peer:
                peer.sendall(f"{method} {path} HTTP/1.0\r\n\r\n".encode())
                answer = b"".join(iter(lambda: peer.recv(4096), b""))
            assert f" {status} ".encode() in answer.splitlines()[0]
            assert b"Python" not in answer


def answer(peer: socket.socket) -> bytes:
    """All that the server sends to a client, also if it ends the connection in a hurry."""
    peer.settimeout(DEADLINE_S)
    found = b""
    with suppress(ConnectionResetError):
        while more := peer.recv(4096):
            found += more
    return found


def test_those_who_connect_and_do_not_ask_keep_nobody_from_the_numbers() -> None:
    with served() as one, ExitStack() as stack:
        until(lambda: rollbacks(one) == 3)
        idle = [stack.enter_context(socket.create_connection(one.at)) for _ in range(MOST)]
        for peer in idle:
            peer.sendall(b"GET /metr")
        for _ in range(20):
            assert rollbacks(one) == 3
        assert answer(idle[0]).startswith(b"HTTP/1.0 503 ")


@pytest.mark.deep  # it waits for ten seconds
def test_those_who_connect_and_say_nothing_do_not_stay() -> None:
    with served() as one, ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(one.at)) for _ in range(MOST)]
        for peer in idle:
            assert answer(peer) == b""
        assert one.text()


@pytest.mark.deep  # it waits for ten seconds
def test_one_who_asks_byte_by_byte_is_cut_off() -> None:
    with served() as one, socket.create_connection(one.at) as slow:
        begin = time.monotonic()

        def is_over() -> bool:
            try:
                slow.sendall(b"G")
            except OSError:
                return True
            return False

        until(is_over)
        assert 9 < time.monotonic() - begin < 20
        assert one.text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_the_program_also_while_somebody_is_connected(number: int) -> None:
    with served() as one, socket.create_connection(one.at) as peer:
        peer.sendall(b"GET /metrics HTTP/1.0\r\n")
        one.text()
        one.process.send_signal(number)
        assert one.process.wait(120) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(one.at)


def test_a_reader_that_is_stuck_still_has_its_numbers_served() -> None:
    command = [
        *PROGRAM,
        "read",
        str(SAMPLES / "tour.pcapng"),
        "-VV",
        "-x",
        "--follow",
        "--metrics",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            found = re.search(r":(\d+)/", process.stderr.readline())
            assert found is not None
            one = Served(process, ("127.0.0.1", int(found[1])))  # nobody reads its output
            begin = time.monotonic()
            assert "process_cpu_seconds_total" in one.text()
            assert time.monotonic() - begin < 10
        finally:
            process.kill()


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["read", ROLLBACK, "--follow", "--metrics", at]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        f"dcpinspect: --metrics {at}: the port is in use; choose another address\n",
    )


@pytest.mark.parametrize(
    "address", ["9464", ":", "", ":99999", "a b:1", "::1:9464", ":9464\x1b[31m", "x" * 300 + ":1"]
)
def test_an_address_that_is_none_is_one_line(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", ROLLBACK, "--follow", "--metrics", address]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dcpinspect: --metrics ")
    assert err.count("\n") == 1
    assert err.removesuffix("\n").isprintable()


def test_without_the_library_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None; from dcpinspect.cli.main import main;"
        f"sys.exit(main(['read', {ROLLBACK!r}, '--follow', '--metrics', ':0']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    line = (
        "dcpinspect: --metrics needs the package prometheus_client; install dcpinspect[metrics]\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_without_a_host_all_interfaces_serve() -> None:
    command = [*PROGRAM, "read", ROLLBACK, "--follow", "--metrics", ":0"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://(\[::\]|0\.0\.0\.0):(\d+)/", process.stderr.readline())
            assert found is not None
            assert Served(process, ("127.0.0.1", int(found[2]))).text()
        finally:
            process.kill()


def query(namespace: str, text: str) -> list[dict[str, Any]]:
    """What Prometheus answers; nothing before it listens."""
    url = f"http://127.0.0.1:9090/api/v1/query?query={quote(text)}"
    code = f"import urllib.request; print(urllib.request.urlopen({url!r}).read().decode())"
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return []
    found: list[dict[str, Any]] = json.loads(done.stdout)["data"]["result"]
    return found


@NEEDS_ROOT
@pytest.mark.requires("prometheus")
def test_prometheus_scrapes_a_live_capture_and_answers_with_its_numbers(tmp_path: Path) -> None:
    alerts = Path(__file__).parents[2] / "docs" / "monitoring" / "alerts.yml"
    shutil.copy(alerts, tmp_path)
    job = {
        "job_name": "dcpinspect",
        "scrape_interval": "1s",
        "static_configs": [{"targets": ["127.0.0.1:9464"]}],
    }
    settings = {
        "global": {"evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [job],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(settings), "utf-8")  # JSON is YAML
    with namespaces("metrics") as (namespace,):
        prometheus = [
            "ip",
            "netns",
            "exec",
            namespace,
            "prometheus",
            "--config.file",
            str(tmp_path / "prometheus.yml"),
        ]
        prometheus += [
            "--storage.tsdb.path",
            str(tmp_path / "data"),
            "--web.listen-address",
            "127.0.0.1:9090",
            "--log.level",
            "error",
        ]
        with live(
            namespace, "-i", "lo", "--metrics", ":9464", "-f", "csv", "--columns", "row"
        ) as running:
            with subprocess.Popen(
                prometheus, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process:
                try:
                    up = until(lambda: query(namespace, "up == 1"))
                    assert up[0]["metric"]["instance"] == "127.0.0.1:9464"
                    said = told(STORIES["rollback"](), namespace)
                    found = until(lambda: query(namespace, "dcpinspect_rollbacks_total == 3"))
                    assert found[0]["metric"]["client"] == "127.0.0.1 mirror"
                    assert found[0]["metric"]["bucket"] == "travel"
                    sent = sum(len(data) for talk in said for data in (talk.c2s, talk.s2c))
                    assert until(
                        lambda: query(namespace, f"sum(dcpinspect_messages_total) == {sent}")
                    )
                    size = sum(
                        len(message)
                        for talk in said
                        for data in (talk.c2s, talk.s2c)
                        for message in data
                    )
                    assert query(namespace, "sum(dcpinspect_message_bytes_total)")[0]["value"][
                        1
                    ] == str(size)
                    dropped = {
                        one["metric"]["where"]: one["value"][1]
                        for one in query(namespace, "dcpinspect_capture_dropped_packets_total")
                    }
                    assert dropped == dict.fromkeys(("kernel", "interface", "disk", "spool"), "0")
                    alert = until(
                        lambda: query(
                            namespace, 'ALERTS{alertname="DcpRollback", alertstate="firing"}'
                        )
                    )
                    assert alert[0]["metric"]["client"] == "127.0.0.1 mirror"
                finally:
                    process.kill()
            running.end()
        assert running.process.returncode == 0
