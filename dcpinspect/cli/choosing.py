"""Selects findings for ``check``: vbucket, connection, client, severity, filter, baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any

from dcpinspect.capture.folders import check_is_file
from dcpinspect.cli import options
from dcpinspect.cli.choices import Choices
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

if TYPE_CHECKING:
    from dcpinspect.cli.config import Config
    from dcpinspect.findings.finding import Finding
    from dcpinspect.findings.span import Span
    from dcpinspect.output.finding_marks import Bearing
    from dcpinspect.reading.joining import MergedReading
    from dcpinspect.reading.reading import Reading
    from dcpinspect.streams.tcp_facts import TcpConnection
    from dcpinspect.tables.filter import Filter
    from dcpinspect.tables.times import TimeSpan

MOST_BASELINE = 256 << 20
"""Greatest size of a baseline in bytes; 100,000 cases have less."""
BaselineKey = tuple[str, str | None, str, int | None]
"""Rule, cause, client's name, vbucket: what a case shares with the same one elsewhere."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """Conditions on findings; all must be met."""

    vbuckets: Sequence[range] = ()
    connections: Sequence[range] = ()
    client: str | None = None
    severity: str | None = None
    filter: Filter | None = None
    limit: int | None = None
    span: TimeSpan | None = None
    time: Span | None = None
    """The bounds of ``span``, once the capture is known."""
    known: Mapping[BaselineKey, int] = field(default_factory=dict)
    """How bad each case was in the baseline: the place of its severity, the worst first."""
    of_client: frozenset[int] = frozenset()
    """Connections with ``client`` in an address of the client or in the DCP name, once there are
    some.
    """
    carrying: frozenset[int] = frozenset()
    """Connections with streams of ``vbuckets``, once there are some."""
    bearing: Bearing | None = None
    """Which vbuckets bear a case; None without ``vbuckets``."""

    @property
    def nothing(self) -> str:
        """Text if nothing worse than notes was found."""
        from dcpinspect.findings.rule import SEVERITIES
        from dcpinspect.output.render.verdict import NOTHING, SELECTED

        if self.known:
            return "nothing new is wrong"
        severity = None if self.severity == SEVERITIES[-1] else self.severity
        is_all = replace(self, severity=severity, limit=None) == Choosing()
        return NOTHING if is_all else f"{NOTHING} {SELECTED}"

    def lacking(
        self, links: Sequence[TcpConnection], clients: Collection[str], vbuckets: Collection[int]
    ) -> str:
        """Returns which of the things asked for is nowhere; empty if all are there, or nothing is
        asked for.

        ``clients`` and ``vbuckets``: those of all streams.
        """
        if self.time is not None and not self.time.has_connection:
            return "no connection goes on in that time"
        if self.connections and not _are_among([link.number for link in links], self.connections):
            return f"there is no such connection among {len(links):,}"
        if self.client is not None and not (self.of_client or self._names_one_of(clients)):
            return f"no client has {escape(self.client)} in its address or DCP name"
        if self.vbuckets and not _are_among(vbuckets, self.vbuckets):
            return "there is no stream of such a vbucket"
        return ""

    def _names_one_of(self, names: Collection[str]) -> bool:
        return self.client is not None and any(
            self.client.casefold() in name.casefold() for name in names
        )

    def on_connections(self, reading: Reading | MergedReading) -> Choosing:
        """Returns the conditions with the connections of the client and of the vbuckets."""
        sessions = reading.tracker.conversation.sessions
        streams = reading.tracker.state.known_tables.streams
        names = {number: session.name or "" for number, session in sessions.items()}
        of_client = frozenset(
            link.number
            for link in reading.links
            if self._names_one_of((link.client, link.origin, names.get(link.number, "")))
        )
        carrying = frozenset(
            connection
            for connection, vbucket in zip(
                streams.connection.tolist(), streams.vbucket.tolist(), strict=True
            )
            if self.vbuckets and _are_among((vbucket,), self.vbuckets)
        )
        if not self.vbuckets:
            return replace(self, of_client=of_client)
        import numpy as np  # deferred: commands that name conditions start without it

        from dcpinspect.output.finding_marks import bearing
        from dcpinspect.streams.records import GREATEST
        from dcpinspect.streams.verdicts import are_never_open

        ends = np.where(streams.finished.row > 0, streams.finished.row, GREATEST)
        lives = np.column_stack((streams.connection, streams.vbucket, streams.opened.row, ends))
        lives = lives[~are_never_open(streams)]
        return replace(self, of_client=of_client, carrying=carrying, bearing=bearing(lambda: lives))

    def within(self, reading: Reading) -> Choosing:
        """Returns the conditions with the bounds of a reading, and with the connections that count
        in place of those that show the same.
        """
        from dcpinspect.findings.span import Span

        links, tracker, connections = reading.links, reading.tracker, [*self.connections]
        if connections:
            for number in tracker.left_out(links):
                if _are_among((number,), self.connections):
                    counts = tracker.copies.among(links)[number].of
                    connections.append(range(counts, counts + 1))
        within = replace(self.on_connections(reading), connections=tuple(connections))
        if self.span is None:
            return within
        bounds = self.span.within(reading.earliest_ns, reading.last_time_ns)
        return replace(within, time=Span.from_bounds(bounds, links))

    def wants(self, case: Finding, effects: Sequence[Finding] = ()) -> bool:
        """Whether a case is wanted, before it is merged with similar ones; also for one of its
        effects, which without it would look like a trouble of its own.
        """
        # new is only what was not in the baseline
        return self._meets_all(case) or (not self.known and any(map(self._meets_all, effects)))

    def _meets_all(self, case: Finding) -> bool:
        from dcpinspect.findings.rule import SEVERITIES

        severity = SEVERITIES.index(case.severity)
        if self.severity is not None and severity > SEVERITIES.index(self.severity):
            return False
        is_of_client = not self.of_client.isdisjoint(case.connections)
        if self.client is not None and not (is_of_client or self._names_one_of(case.clients)):
            return False
        if (
            (self.time is not None and not self.time.has(case))
            or not (_are_among(case.vbuckets, self.vbuckets) or self._is_borne(case))
            or not _are_among(case.connections, self.connections)
        ):
            return False
        return not self.known or any(
            self.known.get(key, len(SEVERITIES)) > severity for key in _keys(case)
        )

    def _is_borne(self, case: Finding) -> bool:
        """Whether a case is about a connection, and one of the vbuckets was open on it then. What is
        wrong with a connection is wrong with what it carries; a note seldom is.
        """
        if case.vbuckets or self.bearing is None or case.severity == "note":
            return False
        if not case.evidence_rows:  # nobody knows which streams were over
            return not self.carrying.isdisjoint(case.connections)
        vbuckets = self.bearing(case)
        return bool(vbuckets) and _are_among(vbuckets, self.vbuckets)

    def matching(self, findings: Sequence[Finding], files: Sequence[str]) -> list[Finding]:
        """Returns the findings that match the filter, at most ``limit``, with their effects."""
        if self.filter is not None:
            from dcpinspect.findings.finding_records import finding_records
            from dcpinspect.tables.record_rows import RecordSelection

            kept_ids = set(
                RecordSelection(filter=self.filter)
                .matching(finding_records(findings, files))
                .values("id")
            )
            findings = [finding for finding in findings if finding.id in kept_ids]
        if self.limit is not None:
            ids = {finding.id for finding in findings}
            first = [finding.id for finding in findings if finding.effect_of not in ids][
                : self.limit
            ]
            findings = [
                finding for finding in findings if finding.id in first or finding.effect_of in first
            ]
        return list(findings)


class FindingConditions(Choices):
    """Conditions on findings; all must be met."""

    title = "Only some"
    words = """
    --vbucket LIST: Only findings about these vbuckets, as in 1,5-9, and errors and warnings about
        connections while they carry them.
    --connection LIST: Only findings about these connections, as in 1,3-4.
    --client TEXT: Only findings about clients with this in their address or DCP name.
    -n --limit N: Stop after N findings. The worst come first.
    --baseline FILE: Only findings that are new or worse, compared with this JSON of an earlier
        check.
    """
    rules: options.RuleChoice = options.RuleChoice()
    vbucket: str | None = None
    connection: str | None = None
    client: str | None = None
    filter_: Annotated[str | None, options.filter_option("findings", "whose = 'server'")] = None
    limit: Annotated[int | None, {"min": 1}] = None
    baseline: str | None = None

    def choosing(self, config: Config | None, span: TimeSpan | None = None) -> Choosing:
        """Returns the conditions. Raises UsageError."""
        from dcpinspect.findings.finding_records import FINDINGS

        return Choosing(
            vbuckets=options.vbuckets_in(self.vbucket),
            connections=options.connections_in(self.connection),
            client=self.client,
            severity=self.rules.severity,
            filter=options.record_filter(self.filter_, FINDINGS, config),
            limit=self.limit,
            span=span,
            known=_known_cases(self.baseline) if self.baseline is not None else {},
        )


def _are_among(numbers: Collection[int], ranges: Sequence[range]) -> bool:
    return not ranges or any(
        number in numbers_asked for number in numbers for numbers_asked in ranges
    )


def _keys(case: Finding) -> list[BaselineKey]:
    name = name_of(case.clients[0]) if case.clients else ""
    return [(case.rule, case.cause, name, vbucket) for vbucket in case.vbuckets or (None,)]


def name_of(client: str) -> str:
    """Returns the name of a client without its address, which is different in another run."""
    return client.partition(" ")[2]


def _known_cases(path: str) -> dict[BaselineKey, int]:
    """Reads the cases of an earlier ``check --format json`` or ``ndjson``. Raises UsageError."""
    import orjson

    from dcpinspect.capture.byte_source import missing
    from dcpinspect.findings.rule import SEVERITIES

    try:
        check_is_file(path)
        with open(path, "rb") as file:
            text = file.read(MOST_BASELINE + 1)
    except FileNotFoundError:
        raise UsageError(f"--baseline {missing(path)}") from None
    except OSError as error:
        raise UsageError(f"--baseline {escape(path)}: {error.strerror}") from error
    if len(text) > MOST_BASELINE:
        raise UsageError(
            f"--baseline {escape(path)}: has more than {MOST_BASELINE >> 20} MiB; write "
            "it with --severity, which leaves findings out"
        )
    # an empty baseline counts as a baseline, too
    baseline: dict[BaselineKey, int] = {("", None, "", None): 0}
    try:
        records: list[Any] = (
            orjson.loads(text)
            if text.lstrip()[:1] == b"["
            else [orjson.loads(line) for line in text.splitlines() if line]
        )
        for record in records:
            severity = SEVERITIES.index(record["severity"])
            for case in record["cases"]:
                for vbucket in case["vbuckets"] or [None]:
                    key = (
                        str(record["rule"]),
                        record["cause"],
                        name_of(case["client"] or ""),
                        vbucket,
                    )
                    baseline[key] = min(severity, baseline.get(key, severity))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"--baseline {escape(path)}: not what check --format json writes"
        ) from error
    return baseline
