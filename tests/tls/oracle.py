"""What tshark says of a TLS capture that lacks nothing, with the key log."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.peers.endpoint import Address
from tests.tls.peers import PORT


def fields(path: Path, keylog: Path, shown: str, *names: str, port: int = PORT) -> list[list[str]]:
    """One row a packet that the display filter shows; what occurs more than once is joined by
    commas.
    """
    options = [option for name in names for option in ("-e", name)]
    return [
        line.split("\t")
        for line in _run(path, keylog, port, "-Y", shown, "-T", "fields", *options).splitlines()
    ]


def plain(path: Path, keylog: Path, connection: int, server: Address) -> tuple[bytes, bytes]:
    """The plain bytes of client and server of a connection, which count from 0; early data stands
    before the client's.
    """
    # It follows one connection a run, and names as its first node whoever it likes.
    told = _run(path, keylog, server[1], "-q", "-z", f"follow,tls,raw,{connection}")
    lines = re.findall(r"^(\t?)([0-9a-f]+)$", told, re.MULTILINE)
    first, second = (
        bytes.fromhex("".join(text for tab, text in lines if bool(tab) is indented))
        for indented in (False, True)
    )
    return (second, first) if f"Node 0: {server[0]}:{server[1]}\n" in told else (first, second)


def messages(path: Path, keylog: Path, *, port: int = PORT) -> int:
    """How many couchbase messages it finds."""
    return sum(
        len(row[0].split(","))
        for row in fields(path, keylog, "couchbase", "couchbase.magic", port=port)
    )


def embed(path: Path, keylog: Path, into: Path) -> Path:
    """The capture as pcapng with its secrets in it, by editcap."""
    subprocess.run(
        ["editcap", "--inject-secrets", f"tls,{keylog}", str(path), str(into)],
        capture_output=True,
        check=True,
    )
    return into


def _run(path: Path, keylog: Path, port: int, *options: str) -> str:
    decode: Sequence[str] = (
        "-o",
        f"tls.keylog_file:{keylog}",
        "-d",
        f"tcp.port=={port},tls",
        "-d",
        f"tls.port=={port},couchbase",
    )
    return subprocess.run(
        ["tshark", "-n", "-r", str(path), *decode, *options],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
