"""Lines as the server writes them: each is the text of a log call in its source, with values put in
by hand.
"""

from __future__ import annotations

TIME = "2026-03-01T10:00:00.250000+01:00"
TIME_NS = 1_772_355_600_250_000_000
NAME = "eq_dcpq:reader:1"


def line(text: str, level: str = "INFO", time: str = TIME) -> str:
    return f"{time} {level} {text}"


def producer(
    text: str,
    vbucket: int | None = 417,
    *,
    level: str = "INFO",
    time: str = TIME,
    bucket: str = "beer",
    old: bool = False,
) -> str:
    """A line of a producer up to 7.6; ``old``: up to 6.0."""
    vb = "" if vbucket is None else f"(vb {vbucket}) " if old else f"(vb:{vbucket}) "
    return line(f"57: ({bucket}) DCP (Producer) {NAME} - {vb}{text}", level, time)


def rollback(
    vbucket: int = 417,
    *,
    to: int = 900,
    start: int = 1000,
    snapshot: tuple[int, int] = (1000, 1000),
    uuid: int = 0xA1,
    reason: str = "consumer ahead of producer - producer upper at 900",
    time: str = TIME,
) -> str:
    """The line of a rollback, as 6.5 to 7.6 write it."""
    return producer(
        f"Stream request requires rollback to seqno:{to} because {reason}. Client requested "
        f"seqnos:{{{start},18446744073709551615}}"
        f" snapshot:{{{snapshot[0]},{snapshot[1]}}} uuid:{uuid}",
        vbucket,
        level="WARNING",
        time=time,
    )


def json_line(message: str, context: str, level: str = "INFO", time: str = TIME) -> str:
    """A line of 8.0."""
    names = f'"conn_id":57,"bucket":"beer","dcp":"producer","dcp_name":"{NAME}"'
    return line(f"{message} {{{names}{',' if context else ''}{context}}}", level, time)


def failovers(vbucket: int, *branches: tuple[int, int]) -> str:
    """What ``cbstats failovers`` prints of a vbucket."""
    out = [
        f" vb_{vbucket}:num_entries:                  {len(branches)}",
        f" vb_{vbucket}:num_erroneous_entries_erased: 0",
    ]
    for place, (uuid, seqno) in enumerate(branches):
        out += [
            f" vb_{vbucket}:{place}:id:                         {uuid}",
            f" vb_{vbucket}:{place}:seq:                        {seqno}",
        ]
    return "\n".join(out)


def seqnos(vbucket: int, high: int, purge: int = 0, uuid: int = 0xA1) -> str:
    """What ``cbstats vbucket-seqno`` prints of a vbucket."""
    values = {
        "abs_high_seqno": high,
        "high_seqno": high,
        "last_persisted_seqno": high,
        "purge_seqno": purge,
        "uuid": uuid,
    }
    return "\n".join(f" vb_{vbucket}:{key}: {value}" for key, value in values.items())
