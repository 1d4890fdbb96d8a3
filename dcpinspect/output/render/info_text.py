"""Summarizes a reading in about ten lines of 80 columns, the important facts first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from dcpinspect.findings.cases import duration
from dcpinspect.findings.finding import ranges
from dcpinspect.output.render.message_lines import share_of
from dcpinspect.text import cells, counted, escape

MOST = 3
"""Number of clients and servers that have a line each."""
_FILES = 8
"""The same of files."""
_MOST_IN_FILE = 100
"""Number of either in a file, whose reader has no command to see the rest."""
_WIDE = 80
_LABEL = 10


def info_lines(
    info: dict[str, Any],
    width: int | None = _WIDE,
    hint: str = "; 'dcpinspect info --format json' has all",
) -> Iterator[str]:
    """Yields the lines, from a record of ``INFO``. ``width``: of lines; None keeps them whole.
    ``hint``: stands behind a list that is not whole, with its name for ``{}``.
    """
    for label, texts in info_facts(info, hint=hint):
        for number, text in enumerate(texts):
            lines = [text] if width is None or label == "next" else _wrapped(text, width - _LABEL)
            for line_number, line in enumerate(lines):
                yield f"{'' if number or line_number else label:<{_LABEL}}{line}"


def info_facts(info: dict[str, Any], *, hint: str = "") -> Iterator[tuple[str, Iterable[str]]]:
    """Yields labels with their texts, which are not wrapped yet. ``hint``: stands behind a list that
    is not whole; without one, lists are longer.
    """
    yield from (
        ("files", _files(info, hint)),
        ("time", _time(info)),
        ("traffic", [_traffic(info)]),
        ("clients", _clients(info, hint)),
        ("servers", _servers(info, hint)),
        (
            "buckets",
            [", ".join(map(escape, info["buckets"])) or "no answer in the capture selects one"],
        ),
        ("vbuckets", [_vbuckets(info)]),
        ("complete", [_complete(info)]),
        ("below DCP", [*_not_opened(info), *map(escape, info["below"])]),
        ("TLS", [_tls(info)]),
        ("next", [escape(info["next"])] if info["next"] else []),
    )


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Splits a text into lines, between words."""
    line = ""
    for word in text.split(" "):
        if line and cells(line) + 1 + cells(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def _first_lines(lines: Sequence[str], noun: str, hint: str, most: int = MOST) -> Iterator[str]:
    first_lines = lines if len(lines) <= (most if hint else _MOST_IN_FILE) + 1 else lines[:most]
    yield from first_lines
    if len(first_lines) < len(lines):
        yield f"and {len(lines) - len(first_lines):,} more {noun}{hint.format(noun)}"


def _files(info: dict[str, Any], hint: str) -> Iterator[str]:
    files = info["files"]
    if len(files) == 1:
        [file] = files
        yield f"{escape(file['name'])} ({file['format']}, {counted(file['packets'], 'packet')})"
        return
    rows = [
        (
            file["format"],
            counted(file["packets"], "packet"),
            counted(file["connections"], "connection"),
            escape(file["name"]),
        )
        for file in files
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:3]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:3], widths[1:]), row[3]])
        for row in rows
    ]
    yield from _first_lines(lines, "files", hint, _FILES)


def _time(info: dict[str, Any]) -> Iterator[str]:
    if info["first_time"] is None:
        return
    first, last = (
        datetime.fromtimestamp(info[name] // 10**9, UTC) for name in ("first_time", "last_time")
    )
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    span = (
        f"{first:%Y-%m-%d %H:%M:%S} to {until} UTC"
        if first != last
        else f"{first:%Y-%m-%d %H:%M:%S} UTC"
    )
    yield f"{span}, {duration(info['last_time'] - info['first_time'])} long"
    local = first.astimezone()
    if local.utcoffset():
        yield (
            f"{local:%Y-%m-%d %H:%M:%S} {escape(local.tzname() or '')} where this runs "
            f"(UTC{local:%z})"
        )


def _traffic(info: dict[str, Any]) -> str:
    counts = (
        ("packets", "packet"),
        ("connections", "connection"),
        ("messages", "message"),
        ("streams", "stream"),
    )
    by_count = sorted(info["answers"].items(), key=lambda pair: -pair[1])
    answers = [
        f"{count:,} {'of unknown answer' if answer == 'unknown' else answer}"
        for answer, count in by_count
    ]
    text = ", ".join(counted(info[name], noun) for name, noun in counts) + (
        f" ({', '.join(answers)})" if answers else ""
    )
    return text + (
        f"; {counted(info['copies'], 'connection')} seen twice, {info['rows']:,} rows with copies"
        if info["copies"]
        else ""
    )


def _clients(info: dict[str, Any], hint: str) -> Iterator[str]:
    return _first_lines(
        [
            f"{escape(client['address'])} {escape(client['name'] or _nameless(info, client))}"
            + (f", agent {escape(client['agent'])}" if client["agent"] else "")
            + f": {_numbers('connection', client['connections'])}"
            + (f"; {counted(client['vbuckets'], 'vbucket')}" if client["vbuckets"] else "")
            for client in sorted(info["clients"], key=lambda client: -client["vbuckets"])
        ],
        "clients",
        hint,
    )


def _nameless(info: dict[str, Any], client: dict[str, Any]) -> str:
    """Returns why a client has no name."""
    if (reason := _unused(info, "client", client["address"], client["connections"])) is not None:
        return reason
    return (
        "name of the DCP open not captured" if client["is_opened"] else "no DCP open in the capture"
    )


def _servers(info: dict[str, Any], hint: str) -> Iterator[str]:
    return _first_lines(
        [
            (
                f"{escape(server['address'])}  {_version(info, server)}: "
                f"{_numbers('connection', server['connections'])}"
            )
            for server in info["servers"]
        ],
        "servers",
        hint,
    )


def _version(info: dict[str, Any], server: dict[str, Any]) -> str:
    if server["version"]:
        return f"version {escape(server['version'])}"
    return (
        _unused(info, "server", server["address"], server["connections"])
        or "version not in the capture"
    )


def _vbuckets(info: dict[str, Any]) -> str:
    numbers = info["vbuckets"]
    return f"{len(numbers):,}: {ranges(numbers)}" if numbers else "none"


def _unused(info: dict[str, Any], name: str, value: str, numbers: Sequence[int]) -> str | None:
    """Returns why none of these connections has a name or a version: what came of all of them; None
    if that is not so.
    """
    unopened = [endpoint for endpoint in info["unopened"] if endpoint[name] == value]
    if set(numbers) - {number for endpoint in unopened for number in endpoint["connections"]}:
        return None
    hows = {endpoint["how"] for endpoint in unopened} - {"silent"}
    return f"not connected ({_how(hows)})" if hows else "said nothing, as health probes do"


def _how(hows: Iterable[str]) -> str:
    return ", ".join(how.replace("-", " ") for how in sorted(hows))


def _not_opened(info: dict[str, Any]) -> Iterator[str]:
    failed = [endpoint for endpoint in info["unopened"] if endpoint["how"] != "silent"]
    if failed:
        count = sum(len(endpoint["connections"]) for endpoint in failed)
        servers = sorted({escape(endpoint["server"]) for endpoint in failed})
        to = ", ".join(servers) if len(servers) <= MOST else counted(len(servers), "server")
        yield (
            f"{counted(count, 'connection')} to {to} could not be opened "
            f"({_how({endpoint['how'] for endpoint in failed})})"
        )


def _complete(info: dict[str, Any]) -> str:
    """Returns what the capture lacks, and apart from it what of its bytes was not decoded."""
    lacks, undecoded = [], []
    if info["left_out"]:
        lacks.append(f"{counted(len(info['left_out']), 'file')} left out")
    for name, noun, reason in (
        ("problems", "problem", "in the capture"),
        ("dropped_packets", "packet", "dropped before they were captured"),
        ("truncated_packets", "packet", "cut by the snapshot length"),
    ):
        if info[name]:
            lacks.append(f"{counted(info[name], noun)} {reason}")
    if info["holes"]:
        reason = "not there when needed" if info["late_bytes"] else "lost"
        lacks.append(
            f"{counted(info['missing_bytes'], 'byte')} {reason} ({counted(info['holes'], 'hole')})"
        )
    if info["one_direction"]:
        lacks.append(
            f"only one direction of {_numbers('connection', info['one_direction'])} was captured"
        )
    if info["late_bytes"]:
        lacks.append(f"{counted(info['late_bytes'], 'byte')} came too late to be read")
    if info["mid_stream"]:
        lacks.append(f"no handshake of {_numbers('connection', info['mid_stream'])}")
    if info["skipped_bytes"]:
        undecoded.append(f"{counted(info['skipped_bytes'], 'byte')} in no whole message")
    if info["foreign_bytes"]:
        undecoded.append(f"{counted(info['foreign_bytes'], 'byte')} of another protocol")
    if info["unopened_records"]:
        undecoded.append(f"{counted(info['unopened_records'], 'record')} of TLS not opened")
    if info["tls_bytes"]:
        undecoded.append("TLS is not decrypted")
    if info["captured_bytes"] == info["foreign_bytes"]:
        foreign = f" ({', '.join(undecoded)})" if undecoded else ""
        return "; ".join([f"nothing to decode{foreign}", *lacks])
    plain = info["captured_bytes"] - info["tls_overhead_bytes"]
    decoded = f"{share_of(info['decoded_bytes'], plain)} of {counted(plain, 'byte')} decoded"
    share = f"{decoded} ({', '.join(undecoded)})" if undecoded else decoded
    if lacks:
        return f"no: {', '.join(lacks)}; of what is there, {share}"
    if not info["messages"]:
        return f"not known, because nothing can be read: {share}; all bytes come after a handshake"
    return f"yes, all bytes come after a handshake; {share}"


def _tls(info: dict[str, Any]) -> str:
    texts = []
    if info["decrypted_connections"]:
        size = counted(info["tls_overhead_bytes"], "byte")
        texts.append(
            f"{_numbers('connection', info['decrypted_connections'])} decrypted; {size} of "
            "them are TLS itself"
        )
    if info["tls_connections"]:
        numbers = _numbers("connection", info["tls_connections"])
        advice = f": {info['tls_next']}" if info["tls_next"] else ""
        texts.append(f"{counted(info['tls_bytes'], 'byte')} on {numbers}, not decrypted{advice}")
    return "; ".join(texts) or "none seen"


def _numbers(noun: str, numbers: Sequence[int]) -> str:
    if len(numbers) > MOST and numbers[-1] - numbers[0] >= len(numbers):
        return counted(len(numbers), noun)
    return f"{noun}{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"
