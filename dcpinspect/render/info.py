"""Summarizes a reading in about ten lines of 80 columns, the important facts first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from dcpinspect.escape import cells, escape
from dcpinspect.findings.finding import ranges
from dcpinspect.render.lines import counted, share_of

MOST = 3
"""Number of files, clients and servers that have a line each."""
_WIDE = 80
_LABEL = 10


def info_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yields the lines, from a record of ``INFO``."""
    for label, texts in info_facts(found):
        for number, text in enumerate(texts):
            for place, line in enumerate(_wrapped(text) if label != "next" else [text]):
                yield f"{'' if number or place else label:<{_LABEL}}{line}"


def info_facts(found: dict[str, Any]) -> Iterator[tuple[str, Iterable[str]]]:
    """Yields labels with their texts, which are not wrapped yet."""
    yield from (
        ("files", _files(found)),
        ("time", _time(found)),
        ("traffic", [_traffic(found)]),
        ("clients", _clients(found)),
        ("servers", _servers(found)),
        ("buckets", [", ".join(map(escape, found["buckets"])) or "none was selected in the capture"]),
        ("vbuckets", [_vbuckets(found)]),
        ("complete", [_complete(found)]),
        ("below DCP", list(map(escape, found["below"]))),
        ("TLS", [_tls(found)]),
        ("next", [escape(found["next"])] if found["next"] else []),
    )


def _wrapped(text: str) -> Iterator[str]:
    """Splits a text into lines, between words."""
    line = ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) > _WIDE - _LABEL:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def _some(lines: Sequence[str], noun: str) -> Iterator[str]:
    shown = lines if len(lines) <= MOST + 1 else lines[:MOST]
    yield from shown
    if len(shown) < len(lines):
        yield f"and {len(lines) - len(shown):,} more {noun}; --format json has all"


def _files(found: dict[str, Any]) -> Iterator[str]:
    return _some([f"{escape(one['name'])} ({one['format']}, {counted(one['packets'], 'packet')})" for one in found["files"]], "files")


def _time(found: dict[str, Any]) -> Iterator[str]:
    if found["first_time"] is None:
        return
    first, last = (datetime.fromtimestamp(found[name] // 10**9, UTC) for name in ("first_time", "last_time"))
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    span = f"{first:%Y-%m-%d %H:%M:%S} to {until} UTC" if first != last else f"{first:%Y-%m-%d %H:%M:%S} UTC"
    yield f"{span}, {_duration(found['last_time'] - found['first_time'])} long"
    local = first.astimezone()
    if local.utcoffset():
        yield f"{local:%Y-%m-%d %H:%M:%S} {escape(local.tzname() or '')} where this runs (UTC{local:%z})"


def _duration(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    if seconds < 60:
        return f"{seconds:.3f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min {rest} s" if hours else f"{minutes} min {rest} s"


def _traffic(found: dict[str, Any]) -> str:
    parts = (("packets", "packet"), ("connections", "connection"), ("messages", "message"), ("streams", "stream"))
    answers = [f"{count:,} {answer}" for answer, count in found["answers"].items()]
    said = ", ".join(counted(found[name], noun) for name, noun in parts) + (f" ({', '.join(answers)})" if answers else "")
    return said + (f"; {counted(found['copies'], 'connection')} seen twice" if found["copies"] else "")


def _clients(found: dict[str, Any]) -> Iterator[str]:
    return _some(
        [
            f"{escape(one['address'])}  {escape(one['name'] or _nameless(found, one))}"
            + (f", agent {escape(one['agent'])}" if one["agent"] else "")
            + f": {_numbers('connection', one['connections'])}"
            + (f", {counted(one['vbuckets'], 'vbucket')}" if one["vbuckets"] else "")
            for one in sorted(found["clients"], key=lambda one: -one["vbuckets"])
        ],
        "clients",
    )


def _nameless(found: dict[str, Any], client: dict[str, Any]) -> str:
    """Returns why a client has no name."""
    if (why := _unused(found, "client", client["address"], client["connections"])) is not None:
        return why
    return "name of the DCP open not captured" if client["is_opened"] else "no DCP open in the capture"


def _servers(found: dict[str, Any]) -> Iterator[str]:
    return _some(
        [f"{escape(one['address'])}  {_version(found, one)}: {_numbers('connection', one['connections'])}" for one in found["servers"]],
        "servers",
    )


def _version(found: dict[str, Any], server: dict[str, Any]) -> str:
    if server["version"]:
        return f"version {escape(server['version'])}"
    return _unused(found, "server", server["address"], server["connections"]) or "version not in the capture"


def _vbuckets(found: dict[str, Any]) -> str:
    numbers = found["vbuckets"]
    return f"{len(numbers):,}: {ranges(numbers)}" if numbers else "none"


def _unused(found: dict[str, Any], name: str, value: str, numbers: Sequence[int]) -> str | None:
    """Returns why none of these connections has a name or a version: what came of all of them; None if that is not so."""
    mine = [one for one in found["unopened"] if one[name] == value]
    if set(numbers) - {number for one in mine for number in one["connections"]}:
        return None
    hows = {one["how"] for one in mine} - {"silent"}
    return f"not connected ({_how(hows)})" if hows else "said nothing, as health probes do"


def _how(hows: Iterable[str]) -> str:
    return ", ".join(how.replace("-", " ") for how in sorted(hows))


def _complete(found: dict[str, Any]) -> str:
    lacks = []
    failed = [one for one in found["unopened"] if one["how"] != "silent"]
    if failed:
        count = sum(len(one["connections"]) for one in failed)
        servers = sorted({escape(one["server"]) for one in failed})
        to = ", ".join(servers) if len(servers) <= MOST else counted(len(servers), "server")
        lacks.append(f"{counted(count, 'connection')} to {to} could not be opened ({_how({one['how'] for one in failed})})")
    for name, noun, what in (
        ("problems", "damaged place", "in the capture"),
        ("dropped_packets", "packet", "dropped before they were captured"),
        ("truncated_packets", "packet", "cut by the snapshot length"),
    ):
        if found[name]:
            lacks.append(f"{counted(found[name], noun)} {what}")
    if found["holes"]:
        what = "not there when needed" if found["late_bytes"] else "lost"
        lacks.append(f"{counted(found['missing_bytes'], 'byte')} {what} ({counted(found['holes'], 'hole')})")
    if found["one_direction"]:
        lacks.append(f"only one direction of {_numbers('connection', found['one_direction'])} was captured")
    if found["skipped_bytes"]:
        lacks.append(f"{counted(found['skipped_bytes'], 'byte')} in no message")
    if found["foreign_bytes"]:
        lacks.append(f"{counted(found['foreign_bytes'], 'byte')} of another protocol")
    if found["late_bytes"]:
        lacks.append(f"{counted(found['late_bytes'], 'byte')} came too late to be read")
    if found["unopened_records"]:
        lacks.append(f"{counted(found['unopened_records'], 'record')} of TLS not opened")
    if found["mid_stream"]:
        lacks.append(f"no handshake of {_numbers('connection', found['mid_stream'])}")
    if found["tls_bytes"]:
        lacks.append("TLS is not decrypted")
    if not found["captured_bytes"]:
        return "; ".join(["nothing to decode", *lacks])
    plain = found["captured_bytes"] - found["tls_overhead_bytes"]
    share = f"{share_of(found['decoded_bytes'], plain)} of {counted(plain, 'byte')} decoded"
    return f"no: {', '.join(lacks)}; of what is there, {share}" if lacks else f"yes: {share}, no handshake is missing"


def _tls(found: dict[str, Any]) -> str:
    parts = []
    if found["decrypted_connections"]:
        size = counted(found["tls_overhead_bytes"], "byte")
        parts.append(f"{_numbers('connection', found['decrypted_connections'])} decrypted; {size} of them are TLS itself")
    if found["tls_connections"]:
        numbers = _numbers("connection", found["tls_connections"])
        parts.append(f"{counted(found['tls_bytes'], 'byte')} on {numbers}, not decrypted: {found['tls_next']}")
    return "; ".join(parts) or "none seen"


def _numbers(noun: str, numbers: Sequence[int]) -> str:
    if len(numbers) > MOST and numbers[-1] - numbers[0] >= len(numbers):
        return counted(len(numbers), noun)
    return f"{noun}{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"
