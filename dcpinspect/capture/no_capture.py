"""Files meant to be captures that are none: what each one is, by how it begins, and what to do."""

from __future__ import annotations

import binascii
import re
import struct

from dcpinspect.capture.mended import CAPTURE, PACKED

HEAD = 1 << 12
"""Number of bytes at the start of a file that are looked at."""
_READ_AGAIN = "make a pcapng file of it: editcap -F pcapng IN OUT"
_RECORD = "record with tcpdump -w FILE"
_GIVE, _GIVE_ITS = "give the capture", "give the capture that it was made of"
_UNPACK = "unpack it first"
_LINE_ENDS = "a pcapng file in which a program for text changed line ends"

_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (
        rb"\s*=*\s*Follow: \w+,",
        "what tshark prints of a stream",
        "give the capture; tshark -w writes one",
    ),
    (
        rb"\s*(?:0x)?(?:8[012]|08|18)[\s:,]?(?:(?:0x)?[0-9A-Fa-f]{2}[\s:,]*){23}[0-9A-Fa-fx\s:,]*\Z",
        "the bytes of a message as hex digits",
        "explain them: dcpinspect explain - < FILE",
    ),
    (rb"PK\x03\x04", "a zip archive", "unpack it, as in unzip -p FILE | dcpinspect read -"),
    (rb".{257}ustar", "a tar archive", "unpack it, as in tar -xOf FILE | dcpinspect read -"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (rb"Rar!\x1a\x07", "a rar archive", _UNPACK),
    (rb"\x04\x22\x4d\x18", "packed by lz4", "unpack it, as in lz4 -dc FILE | dcpinspect read -"),
    (rb"\x1f\x9d", "packed by compress", "unpack it, as in gzip -dc FILE | dcpinspect read -"),
    (rb"snoop\0\0\0", "a snoop file, as Solaris records", _READ_AGAIN),
    (rb"RTSS|GMBU", "a file of Microsoft Network Monitor", _READ_AGAIN),
    (rb"\x7fver", "a file of EtherPeek or OmniPeek", _READ_AGAIN),
    (rb"ObserverPktBuffe", "a file of Observer", _READ_AGAIN),
    (rb"btsnoop\0", "a btsnoop file: it has Bluetooth, and no TCP", "record the network interface"),
    (
        rb".{72}\x02\0[\x01\x02]\xc0",
        "an event trace of Windows (ETL)",
        "make a pcapng file of it: pktmon etl2pcap IN --out OUT",
    ),
    (
        rb"version https://git-lfs",
        "a pointer of Git LFS, which stands for the file",
        "get the file: git lfs pull",
    ),
    (
        rb"\s*(?:<!--.{0,999}?-->\s*)?<(?i:!doctype html|html|head)\b",
        "an HTML page, perhaps of a login",
        "download the file again, logged in",
    ),
    (rb"\s*<\?xml\b.{0,2000}?<pdml\b", "what tshark -T pdml prints", _GIVE_ITS),
    (
        rb"\s*(?:\[\s*)?\{\s*(?:\"index\"\s*:\s*\{\s*)?\"_index\"\s*:\s*\"packets-",
        "what tshark prints as JSON",
        _GIVE_ITS,
    ),
    (rb"\s*<\?xml\b", "XML", _GIVE),
    (
        rb"(?=[\t\r\n -~]{7})\s*[\[{]\s*[\"{\[]",
        "JSON",
        f"{_GIVE}; 'dcpinspect log' reads statistics and checkpoints",
    ),
    (rb"\x7fELF", "a program", _GIVE),
    (rb"SQLite format 3\0", "a database of SQLite", _GIVE),
    (rb"%PDF-", "a PDF document", _GIVE),
    (rb"\x89PNG\r\n", "a picture", _GIVE),
    (rb"PAR1|ARROW1", "a table in Parquet or Arrow", _GIVE_ITS),
    (rb"\0{64}", "zeros: it was never written, or was lost", "record again"),
    (
        rb"\n\r?\n.{0,6}(?:\x4d\x3c\x2b\x1a|\x1a\x2b\x3c\x4d)",
        _LINE_ENDS,
        "copy it again, as binary",
    ),
    (
        rb"[^\0]{0,2000}?[\w.:]+ > [\w.:]+: Flags \[",
        "what tcpdump prints without the bytes of packets (-A has dots for most of them)",
        "print with -XX, or record with -w FILE",
    ),
    (
        rb"(?:tcpdump|tshark|dumpcap|Capturing on|listening on|Running as user)\b[^\0]*\Z",
        "what a program that captures says, without its packets",
        _RECORD,
    ),
    (
        rb"(?:\d{1,9} packets? (?:captured|received|dropped)[^\n]*\s*)+\Z",
        "what tcpdump says at its end, without its packets",
        _RECORD,
    ),
    (
        (
            rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}\S{0,6} "
            rb"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL) "
        ),
        "a log of a server",
        "give it to 'dcpinspect log', or to 'check' with --log",
    ),
)
"""The first bytes of each kind, what it is, and what to do."""
_ERF_TYPES = frozenset((*range(1, 28), *range(32, 49)))
_ERF_HEADER = struct.Struct("<IIBBHHH")  # fraction, seconds, type, flags; lengths are big-endian
_ERF_RECORDS = 3


def what_it_is(head: bytes) -> tuple[str, str] | None:
    """Returns what a file is that begins with ``head``, and what to do; None if nothing tells."""
    if answer := _encoded(head):
        return answer
    for pattern, description, next_step in _KINDS:
        if re.match(pattern, head, re.DOTALL):
            return f"is {description}", next_step
    return ("is an ERF file, as Endace's cards record", _READ_AGAIN) if _is_erf(head) else None


def _encoded(head: bytes) -> tuple[str, str] | None:
    """Returns the answer for a capture that was written as text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = head[: len(head) & ~1].decode("utf-16", "replace")
        if all(letter.isprintable() or letter in "\t\r\n" for letter in text):
            return "is UTF-16 text", "make UTF-8 of it: iconv -f UTF-16 -t UTF-8 IN > OUT"
        return (
            "is a capture that PowerShell wrote as UTF-16 text, which damages it",
            f"{_RECORD}, or redirect with cmd /c",
        )
    text = head[:64].decode("utf-8", "replace")
    if any(
        CAPTURE.match(text.encode(codec, "ignore"))
        for codec in ("latin-1", "cp437", "cp850", "cp1252")
    ) and not CAPTURE.match(head):
        return (
            "is a capture that a shell wrote as UTF-8 text, which damages it",
            f"{_RECORD}, or redirect with cmd /c",
        )
    if b"\xef\xbf\xbd" in head[:8]:
        return "is binary data that was taken for UTF-8 text, which damages it", _RECORD
    if is_in_hex(head):
        return (
            "is a capture as hex digits",
            "make bytes of them: xxd -r IN OUT, or xxd -r -p if there are digits alone",
        )
    packed = re.match(rb"[A-Za-z0-9+/]{12,}", re.sub(rb"\s", b"", head[:200]))
    if packed and _begins_capture(binascii.a2b_base64(packed[0][: len(packed[0]) & ~3])):
        return "is a capture in base64", "decode it: base64 -d IN > OUT"
    return None


def is_in_hex(head: bytes) -> bool:
    """Returns whether a text begins with the hex digits of a capture file, not of packets."""
    digits = re.sub(rb"\A(?:0x)?0+:?[ \t]+|\\x|0x|[\s,:]", b"", head[:200])
    begun = re.match(rb"(?:[0-9A-Fa-f]{2}){4,}", digits)
    return begun is not None and _begins_capture(bytes.fromhex(begun[0].decode()))


def _begins_capture(data: bytes) -> bool:
    return bool(CAPTURE.match(data) or PACKED.match(data))


def _is_erf(head: bytes) -> bool:
    """Returns whether records of ERF stand at the start, one behind the other. The format has no
    sign of its own.
    """
    record_start = records = before = 0
    while record_start + 16 <= len(head) and records < _ERF_RECORDS:
        fraction, seconds, kind, _, *lengths = _ERF_HEADER.unpack_from(head, record_start)
        size, _, wire = (length >> 8 | (length & 0xFF) << 8 for length in lengths)
        if (
            kind & 0x7F not in _ERF_TYPES
            or size < 16
            or not wire
            or abs(seconds - (before or seconds)) > 86_400
            or not (seconds or fraction)
        ):
            return False
        before, record_start, records = seconds, record_start + size, records + 1
    return records == _ERF_RECORDS or (records > 0 and record_start == len(head))
