"""Files that are no captures are refused with what they are and what to do, and nothing that is a
capture is.
"""

from __future__ import annotations

import base64
import gzip
import io
import random
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from dcpinspect.capture.no_capture import what_it_is
from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.errors import CaptureError
from tests.peers.truth import SAMPLES

FIELD = Path(__file__).parents[1] / "captures" / "field"
BASE = (FIELD / "t00-base.pcap").read_bytes()
ERF = (FIELD / "f20-erf.pcap").read_bytes()
EDITCAP = "make a pcapng file of it: editcap -F pcapng IN OUT"


def archive(opened: tarfile.TarFile, buffer: io.BytesIO) -> bytes:
    about = tarfile.TarInfo("cap.pcap")
    about.size = len(BASE)
    opened.addfile(about, io.BytesIO(BASE))
    opened.close()
    return buffer.getvalue()


def tar(form: int) -> bytes:
    return archive(tarfile.open(fileobj=(buffer := io.BytesIO()), mode="w", format=form), buffer)


def zipped() -> bytes:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
        file.writestr("a.pcap", BASE)
    return buffer.getvalue()


def dump(data: bytes) -> bytes:
    return subprocess.run(["xxd"], input=data, capture_output=True, check=True).stdout


KINDS: dict[str, tuple[bytes, str, str]] = {
    "snoop": ((FIELD / "f19-snoop.pcap").read_bytes(), "a snoop file", EDITCAP),
    "erf": (ERF, "an ERF file", EDITCAP),
    "one record of erf": (ERF[: ERF[11]], "an ERF file", EDITCAP),
    "html": ((FIELD / "g09-html.pcap").read_bytes(), "an HTML page", "logged in"),
    "html with a comment": (
        b"\n<!-- proxy -->\n<HTML><body>no</body>",
        "an HTML page",
        "logged in",
    ),
    "git lfs": ((FIELD / "g10-lfs.pcap").read_bytes(), "a pointer of Git LFS", "git lfs pull"),
    "utf-16 of powershell": (
        b"\xff\xfe" + BASE.decode("cp437").encode("utf-16-le"),
        "PowerShell wrote as UTF-16",
        "tcpdump -w FILE",
    ),
    "utf-16 text": (
        "10:49:58 IP 10.0.0.1\r\n\t0x0000:  4500\r\n".encode("utf-16"),
        "is UTF-16 text",
        "iconv -f UTF-16 -t UTF-8 IN > OUT",
    ),
    "utf-8 of cp437": (BASE.decode("cp437").encode(), "a shell wrote as UTF-8", "tcpdump -w FILE"),
    "utf-8 of latin-1": (
        BASE.decode("latin-1").encode(),
        "a shell wrote as UTF-8",
        "tcpdump -w FILE",
    ),
    "utf-8 with replacements": (
        BASE.decode(errors="replace").encode(),
        "taken for UTF-8 text",
        "tcpdump -w FILE",
    ),
    "base64": (base64.encodebytes(BASE), "a capture in base64", "base64 -d IN > OUT"),
    "base64 in one line": (base64.b64encode(BASE), "a capture in base64", "base64 -d IN > OUT"),
    "base64 of gzip": (
        base64.encodebytes(gzip.compress(BASE)),
        "a capture in base64",
        "base64 -d IN > OUT",
    ),
    "base64 of pcapng": (
        base64.b64encode((SAMPLES / "tour.pcapng").read_bytes()),
        "a capture in base64",
        "base64 -d IN > OUT",
    ),
    "hex digits": (BASE.hex().encode(), "a capture as hex digits", "xxd -r"),
    "xxd": (dump(BASE), "a capture as hex digits", "xxd -r"),
    "tar": (tar(tarfile.USTAR_FORMAT), "a tar archive", "tar -xOf FILE"),
    "tar of GNU": (tar(tarfile.GNU_FORMAT), "a tar archive", "tar -xOf FILE"),
    "zip": (zipped(), "a zip archive", "unzip -p FILE"),
    "lz4": (b"\x04\x22\x4d\x18\x64\x40\xa7" + bytes(20), "packed by lz4", "lz4 -dc FILE"),
    "network monitor": (b"GMBU\0\2\1\0" + bytes(120), "Microsoft Network Monitor", EDITCAP),
    "etl": (
        struct.pack("<18I", 65536, *[7] * 17) + b"\x02\0\x02\xc0" + bytes(200),
        "an event trace of Windows",
        "pktmon etl2pcap",
    ),
    "tshark -T json": (
        b'[\n  {\n    "_index": "packets-2024-11-11",\n',
        "what tshark prints as JSON",
        "give the capture",
    ),
    "tshark -T ek": (
        b'{"index":{"_index":"packets-2024-11-11","_type":"doc"}}\n',
        "what tshark prints as JSON",
        "give the capture",
    ),
    "tshark -T pdml": (
        b'<?xml version="1.0"?>\n<!-- made -->\n<pdml version="0">',
        "what tshark -T pdml prints",
        "give the capture",
    ),
    "json": (b'{"vb_0": {"state": "active"}}', "is JSON", "give the capture"),
    "a program": (
        Path(sys.executable).resolve().read_bytes()[:5000],
        "a program",
        "give the capture",
    ),
    "zeros": (bytes(100_000), "zeros", "record again"),
    "dos2unix": (
        (SAMPLES / "tour.pcapng").read_bytes().replace(b"\r\n", b"\n"),
        "changed line ends",
        "as binary",
    ),
    "messages of tcpdump": (
        b"tcpdump: eth7: No such device exists\n(No such device exists)\n",
        "without its packets",
        "tcpdump -w FILE",
    ),
    "the end of tcpdump": (
        b"111 packets captured\n0 packets dropped by kernel\n",
        "without its packets",
        "tcpdump -w FILE",
    ),
    "memcached.log": (
        b"2024-11-11T10:49:58.164224+00:00 INFO 43: DCP (Producer) x\n",
        "a log of a server",
        "dcpinspect log",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_no_capture_is_refused_in_one_line_with_its_kind_and_the_way_out(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, what, next_step = KINDS[name]
    path = tmp_path / "x.pcap"
    path.write_bytes(data)
    assert main(["check", str(path)]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert what in err
    assert next_step in err


def test_a_database_is_refused_as_one(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x") as database:
        database.execute("create table a (b)")
    with pytest.raises(CaptureError, match="is a database of SQLite"):
        open_capture(tmp_path / "x")


def test_a_pipe_is_refused_with_the_same_words() -> None:
    command = [sys.executable, "-m", "dcpinspect", "check", "-"]
    told = subprocess.run(command, input=KINDS["base64"][0], capture_output=True, check=False)
    assert (told.returncode, told.stdout) == (2, b"")
    assert (
        told.stderr
        == b"dcpinspect: standard input: is a capture in base64; decode it: base64 -d IN > OUT\n"
    )


def test_in_a_directory_it_is_left_out_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(BASE)
    (tmp_path / "b.pcap").write_bytes(KINDS["snoop"][0])
    with open_capture(tmp_path) as capture:
        assert sum(map(len, capture)) == 111
        assert [one.what for one in capture.problems] == [
            "left out, for it is a snoop file, as Solaris records"
        ]


def test_noise_is_of_no_kind() -> None:
    numbers = random.Random(43)
    assert [what for _ in range(2000) if (what := what_it_is(numbers.randbytes(400)))] == []


def test_captures_are_of_no_kind() -> None:
    for path in (*FIELD.glob("t*.pcap"), SAMPLES / "tour.pcapng", SAMPLES / "rollback.pcap"):
        assert what_it_is(path.read_bytes()[:4096]) is None
