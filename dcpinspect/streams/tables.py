"""The tables of what a tracker knows, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from dcpinspect.arrays import BoolArray, IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams import words as w
from dcpinspect.streams.connections import FlowControl
from dcpinspect.streams.consumers import Consumers
from dcpinspect.streams.copies import Copy
from dcpinspect.streams.failover_logs import FailoverLogs
from dcpinspect.streams.gaps import Amounts, ExplainedGaps
from dcpinspect.streams.rollbacks import Rollbacks
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.streams.unread_requests import UnreadRequests
from dcpinspect.streams.visibility import Visibility
from dcpinspect.streams.waits import Waits
from dcpinspect.tables.record_tables import Records, WordColumn

NAMES = ("connections", "streams", "snapshots", "gaps", "rollbacks", "vbuckets")
"""Names of the tables that SQL can ask for."""


@dataclass(frozen=True, slots=True)
class TableInput:
    """What tables and rules are computed from, besides what the tracker itself knows."""

    by_number: Mapping[int, TcpConnection]
    """The connections by number."""
    sight: Visibility
    consumers: Consumers
    clients: Mapping[int, str]
    """Name of the consumer that each connection belongs to, by number of the connection."""
    flows: Mapping[int, FlowControl]
    """The state of flow control, by number of the connection."""
    unread: UnreadRequests
    waits: Waits
    """The waits from which verdicts of streams are computed."""
    gaps: ExplainedGaps
    """The gaps and their causes, from which the table of gaps is made."""
    amounts: tuple[IntArray, Amounts]
    """Number of snapshots of every stream, as ``State`` numbers streams; and its gaps."""
    streams: Records
    """The table of streams, in the same order."""
    replicas: BoolArray
    """True for streams of vbuckets that their server has as a replica."""
    snapshot_states: IntArray
    """The state of every snapshot, by number of the snapshot."""

    @property
    def verdicts(self) -> IntArray:
        """The number of each stream's verdict."""
        verdicts = self.streams.columns["verdict"]
        assert isinstance(verdicts, WordColumn)
        return verdicts.codes

    @property
    def broke_off(self) -> BoolArray:
        """A mask of streams that were open when their connection ended, for all that is known."""
        reasons = self.streams.columns["end_reason"]
        assert isinstance(reasons, WordColumn)
        mask: BoolArray = reasons.codes == w.CONNECTION_CLOSED
        return mask


class _Named:
    """One of the tables of ``Tables``, by the name of the attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, tables: Tables, owner: type) -> Records:
        return tables._table(self._name)


class Tables:
    """The tables of what is known so far. Each table is made when it is first asked for. A later
    call of ``tables`` may know more.
    """

    def __init__(
        self,
        seen: TableInput,
        made: Mapping[str, Callable[[], Any]],
        links: Sequence[TcpConnection],
        files: Sequence[str] = (),
    ) -> None:
        """Keeps what makes the tables.

        ``made``: functions by the name of the table, or of a part that tables need. ``files``: the
        captures, if records say in which capture they begin.
        """
        self.seen = seen
        self.links = links
        self.all_gaps, self.waits = seen.gaps, seen.waits
        self._made, self._files = made, files

    def with_files(self, files: Sequence[str]) -> Tables:
        """Returns these tables with records that say in which of ``files`` they begin."""
        if not files:
            return self
        self.seen.gaps.files = files
        return Tables(self.seen, self._made, self.links, files)

    def with_connections(
        self,
        connections: Callable[[], Records],
        links: Sequence[TcpConnection],
        copies: Mapping[int, Copy],
    ) -> Tables:
        """Returns these tables with a table of more connections. ``copies``: connections that show
        what another one shows.
        """

        def made() -> Records:
            records = connections()
            originals = [
                copies[number].of if number in copies else None
                for number in records.values("connection")
            ]
            return records.with_column("copy_of", originals)

        return Tables(self.seen, {**self._made, "connections": cache(made)}, links, self._files)

    @property
    def logs(self) -> FailoverLogs:
        """All failover logs."""
        failover_logs: FailoverLogs = self._made["logs"]()
        return failover_logs

    @property
    def explained(self) -> Rollbacks:
        """Why stream requests were answered with a rollback."""
        rollbacks: Rollbacks = self._made["explained"]()
        return rollbacks

    def _table(self, name: str) -> Records:
        table: Records = self._made[name]()
        return table.with_file(self._files) if self._files else table

    connections, streams, snapshots, gaps, rollbacks, vbuckets = (_Named() for _ in NAMES)

    def vbuckets_of(self, connection: int) -> Records:
        """Returns the table of vbuckets as it is if there is only this connection."""
        clients = {
            number: name for number, name in self.seen.clients.items() if number == connection
        }
        of_clients: Callable[[Mapping[int, str]], Records] = self._made["vbuckets_of"]()
        return of_clients(clients)

    @property
    def by_name(self) -> dict[str, Records]:
        """All tables by their names."""
        return {name: getattr(self, name) for name in NAMES}
