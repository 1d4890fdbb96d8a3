"""One connection from its handshake to its end, told step by step so that others can go on in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dcpinspect.protocol.flags import ENDLESS
from tests.model.client import Client, Place
from tests.model.dice import Dice
from tests.model.history import Vbucket
from tests.model.producer import Request, ServerStream
from tests.model.tape import Closed, Opened, Said, encoded
from tests.peers.script import swapped

if TYPE_CHECKING:
    from tests.model.play import World

SUCCESS, KEY_ENOENT, KEY_EEXISTS, EINVAL, NOT_MY_VBUCKET, ERANGE, ROLLBACK, EACCESS = (
    0,
    1,
    2,
    4,
    7,
    0x22,
    0x23,
    0x24,
)
NOT_SUPPORTED, ETMPFAIL, UNKNOWN_COLLECTION = 0x83, 0x86, 0x88

_FIRST_NOOP = 10_000_001
_CODES = {
    "XATTR": 0x06,
    "XERROR": 0x07,
    "SELECT_BUCKET": 0x08,
    "SNAPPY": 0x0A,
    "JSON": 0x0B,
    "Tracing": 0x0F,
    "Collections": 0x12,
}

Steps = Iterator[None]


class Gone(Exception):  # noqa: N818 - no error: it ends the course of a connection wherever that is
    """The connection was closed meanwhile."""


class Session:
    """A client's connection to a node. ``up`` is the direction from consumer to producer, which is
    not always that to the TCP server.
    """

    def __init__(self, world: World, client: Client, node: int, port: int) -> None:
        self.world, self.client, self.node = world, client, node
        self.dice: Dice = world.dice
        self.number = len(world.tape.opened)
        self.up = not client.is_replication
        self.is_open = False
        self.is_gone = False
        self.streams: dict[Place, ServerStream] = {}
        self.window = 0
        self.outstanding = 0
        self.noops = 0
        self.has_noops = False
        self._opaque = 0
        self.open_noop: int | None = None
        self.replicas: set[int] = set()
        """Vbuckets that the server has listed as replicas on this connection."""
        self.noop_interval_s = 0.0
        self.heard_ns = 0
        """When the producer last said something."""
        world.tape.entries.append(
            Opened(self.number, world.tick(), (client.host, port), (f"10.0.2.{node + 1}", 11_210))
        )

    # -- telling
    # -------------------------------------------------------------------------------------------

    def tell(
        self, to_server: bool, name: str, side: str = "request", *, waits: bool = True, **parts: Any
    ) -> None:
        """One message; raises Gone once the connection is closed."""
        if self.is_gone:
            raise Gone
        data = encoded(name, side, parts)
        if (
            self.client.terms.hides_frames
            and parts.get("sid")
            and name in ("dcp_deletion", "dcp_expiration")
            and parts["generation"] == "v2"
        ):
            # Servers from 8.0 on leave the length of the frames out of these: a known fault, which
            # readers live with.
            data = data[:2] + b"\0" + data[3:]
        now_ns = self.world.tick()
        self.world.tape.entries.append(
            Said(self.number, to_server, name, side, parts, data, now_ns, waits)
        )
        if to_server != self.up:
            self.heard_ns = now_ns

    def ask(
        self,
        to_server: bool,
        name: str,
        answer: dict[str, Any] | None = None,
        *,
        opaque: int | None = None,
        **parts: Any,
    ) -> Steps:
        """A request and its answer; a refusal has nothing but its status."""
        number = self.opaque() if opaque is None else opaque
        self.tell(to_server, name, opaque=number, **parts)
        yield
        reply: dict[str, Any] = {"status": SUCCESS} | (answer or {})
        self.tell(not to_server, name, "response", opaque=number, **reply)

    def opaque(self, vbucket: int | None = None, sid: int = 0) -> int:
        """The next opaque of the client, by its habit."""
        if self.client.opaques == "zero":
            return 0
        if self.client.opaques == "by vbucket" and vbucket is not None:
            return 0x100 + vbucket + (sid << 16 if self.client.tells_opaques_apart else 0)
        self._opaque += 1
        return swapped(self._opaque) if self.client.is_replication else self._opaque

    def stream_message(
        self, stream: ServerStream, name: str, parts: dict[str, Any], *, waits: bool = True
    ) -> None:
        """A message of a stream, counted by flow control, received by the client."""
        request = stream.request
        sid: dict[str, Any] = {"sid": request.sid} if request.sid else {}
        self.tell(
            not self.up,
            name,
            waits=waits,
            vbucket=request.vbucket,
            opaque=request.opaque,
            **sid,
            **parts,
        )
        sent = self.world.tape.entries[-1]
        assert isinstance(sent, Said)
        self.outstanding += len(sent.data) + (2 if name == "dcp_prepare" else 0)
        self.client.position((request.vbucket, request.sid)).receive(name, parts)

    # -- the course
    # ----------------------------------------------------------------------------------------

    def run(self) -> Steps:
        """From the first message to the last."""
        yield from self._introduce()
        if not self.is_open:
            if self.dice.chance(50):
                self.close("client")
            return
        yield from self._negotiate()
        for _ in range(4 + self.dice.below(40)):
            yield from self._step()
            yield
        yield from self._leave()

    def _introduce(self) -> Steps:
        client, dice = self.client, self.dice
        if not client.terms.upr or dice.chance(30):
            wanted = ["XERROR", "SELECT_BUCKET", "XATTR", "SNAPPY", "JSON"] + (
                ["Collections"] if client.terms.collections else []
            )
            granted = [
                name for name in wanted if name not in ("SNAPPY", "XATTR") or not dice.chance(20)
            ]
            codes = [[{"feature": _CODES[name]} for name in names] for names in (wanted, granted)]
            yield from self.ask(
                True, "hello", {"features": codes[1]}, key=client.agent or "upr", features=codes[0]
            )
        if client.has_sasl:
            yield from self.ask(True, "sasl_list_mechs", {"value": "SCRAM-SHA512 PLAIN"})
            yield from self.ask(True, "sasl_auth", key="PLAIN", value="\0reader\0secret")
        if not client.terms.upr:
            yield from self.ask(True, "select_bucket", key="default")
        flags = [] if client.is_replication else ["producer"]
        flags += ["include-delete-times"] if client.terms.delete_times else []
        flags += ["skip-deletes-in-initial-backfill"] if client.terms.skip_deletes else []
        refused = dice.chance(2)
        named: dict[str, Any] = (
            {"value": '{"consumer_name":"replica"}', "datatype": 1}
            if client.is_replication and dice.chance(50)
            else {}
        )
        yield from self.ask(
            True,
            "dcp_open",
            {"status": EACCESS} if refused else None,
            key=client.name,
            flags=flags,
            **named,
        )
        self.is_open = not refused

    def _negotiate(self) -> Steps:
        client, terms = self.client, self.client.terms
        settings = [
            ("enable_noop", "true", client.has_noops),
            ("set_noop_interval", client.noop_interval, bool(client.noop_interval)),
            ("connection_buffer_size", str(client.window), bool(client.window)),
            ("enable_sync_writes", "true", terms.sync_writes),
            ("consumer_name", "replica", terms.consumer_name),
            ("enable_stream_id", "true", terms.stream_ids),
            ("max_marker_version", "2.2", terms.marker_2_2),
            ("enable_expiry_opcode", "true", terms.expiries),
            ("flatbuffers_system_events", "true", terms.flatbuffers),
            ("enable_out_of_order_snapshots", terms.out_of_order, bool(terms.out_of_order)),
            ("change_streams", "true", terms.history),
            ("send_stream_end_on_client_close_stream", "true", terms.end_on_close),
        ]
        wanted = [(key, value, SUCCESS) for key, value, is_wanted in settings if is_wanted]
        # What a server of another release, or with another storage, refuses; clients ask all the
        # same, and go on without.
        refused = [
            ("set_priority", "highest", EINVAL),
            ("stream_buffer_size", "1000", EINVAL),
            ("include_deleted_user_xattrs", "true", EINVAL),
        ]
        refused += [
            ("cache_transfer", "true", NOT_SUPPORTED),
            *([] if terms.history else [("change_streams", "true", NOT_SUPPORTED)]),
        ]
        refused += [] if terms.expiries else [("enable_expiry_opcode", "true", EINVAL)]
        if self.dice.chance(25):
            wanted += self.dice.shuffled(refused)[: 1 + self.dice.below(3)]
        if self.dice.chance(30):
            yield from self._controls_at_once(wanted)
        else:
            for key, value, status in wanted:
                yield from self._control(key, value, status)
        self.has_noops = client.has_noops
        if client.reads_replicas:
            # It asks for the replicas before it streams from them.
            yield from self._seqnos()

    def _controls_at_once(self, wanted: list[tuple[str, str, int]]) -> Steps:
        """All settings, then all answers; where all have one opaque, only their order tells them
        apart.
        """
        opaques = [0 if self.client.opaques == "zero" else self.opaque() for _ in wanted]
        for (key, value, _), opaque in zip(wanted, opaques, strict=True):
            self.tell(self.up, "dcp_control", opaque=opaque, key=key, value=value)
        yield
        for (key, value, status), opaque in zip(wanted, opaques, strict=True):
            self.tell(not self.up, "dcp_control", "response", opaque=opaque, status=status)
            self._settle(key, value, status)

    def _control(self, key: str, value: str, status: int = SUCCESS) -> Steps:
        opaque = 0 if self.dice.chance(20) and not self.client.tells_opaques_apart else None
        yield from self.ask(
            self.up, "dcp_control", {"status": status}, opaque=opaque, key=key, value=value
        )
        self._settle(key, value, status)

    def _settle(self, key: str, value: str, status: int) -> None:
        if key == "set_noop_interval" and status == SUCCESS:
            self.noop_interval_s = float(value)
        if key == "connection_buffer_size" and status == SUCCESS:
            if self.window == 0:
                self.outstanding = 0
            self.window = int(value)

    def _step(self) -> Steps:
        running = [stream for stream in self.streams.values() if not stream.is_ended]
        options: list[tuple[int, Callable[[], Steps]]] = [
            (60 if running else 0, self._push),
            (30 if not running else 8, self._open_streams),
            (6, self._write),
            (5 if self.has_noops else 0, self._noop),
            (8 if self.outstanding and self.window else 0, self._acknowledge),
            (4 if running else 0, self._close_stream),
            (4 if running else 0, self._end_stream),
            (3, self._failover_log),
            (4, self._seqnos),
            (2, self._observe),
            (2, self._change_window),
            (2, self._idle),
            (2 if running else 0, self._ask_again),
            (3, self._ask_in_vain),
            (2, self._close_in_vain),
            (2, self._happen),
        ]
        yield from self.dice.weighted([option for option in options if option[0]])()

    # -- what may happen in a step
    # -------------------------------------------------------------------------

    def _push(self) -> Steps:
        running = [stream for stream in self.streams.values() if not stream.is_ended]
        for _ in range(1 + self.dice.below(8)):
            running = [stream for stream in running if not stream.is_ended]
            if not running:
                return
            stream = self.dice.pick(running)
            if self.window and self.outstanding >= self.window:
                if self.dice.chance(30):
                    return  # a consumer that takes its time
                yield from self._acknowledge()
                if not self.has_room():
                    return
            if not self.send_next(stream):
                return
            if self.dice.chance(40):
                yield

    def send_next(self, stream: ServerStream, *, waits: bool = True) -> bool:
        """The next message of a stream, if there is one."""
        if stream.must_end:
            stream.queue.clear()
            stream.queue.append(("dcp_stream_end", {"end_reason": stream.must_end}))
        if not stream.build(self.dice):
            return False
        name, parts = stream.queue.popleft()
        self.stream_message(stream, name, parts, waits=waits)
        if name == "dcp_stream_end":
            stream.is_ended = True
            del self.streams[stream.request.vbucket, stream.request.sid]
            if self.client.answers_ends:
                self.tell(self.up, name, "response", opaque=stream.request.opaque, status=SUCCESS)
        if name == "dcp_set_vbucket_state":
            self.tell(self.up, name, "response", opaque=stream.request.opaque, status=SUCCESS)
        if name == "dcp_snapshot_marker":
            stream.awaits_ack = "ack" in parts.get("snapshot_type", ())
        elif stream.awaits_ack and not stream.queue:
            # The last message of a snapshot that was to be acknowledged.
            stream.awaits_ack = False
            self.tell(
                self.up,
                "dcp_snapshot_marker",
                "response",
                opaque=stream.request.opaque,
                status=SUCCESS,
            )
        if name == "dcp_prepare" and self.client.terms.consumer_name and self.dice.chance(50):
            self.tell(
                self.up,
                "dcp_seqno_acknowledged",
                vbucket=stream.request.vbucket,
                opaque=stream.request.opaque,
                prepared_seqno=parts["by_seqno"],
                waits=False,
            )
        return True

    def _acknowledge(self) -> Steps:
        if self.outstanding:
            amount = (
                self.outstanding if self.dice.chance(70) else 1 + self.dice.below(self.outstanding)
            )
            if self.dice.chance(80) or amount == self.outstanding:
                if self.dice.chance(50):
                    yield
                amount = min(amount, self.outstanding)
                self.tell(self.up, "dcp_buffer_acknowledgement", opaque=0, ack_bytes=amount)
                self.outstanding -= amount
        yield

    def _open_streams(self) -> Steps:
        """One or several requests under way at once, then their answers in order."""
        world, dice = self.world, self.dice
        free = [place for place in self.places() if place not in self.streams]
        pending: list[tuple[Request, int | None]] = []
        for _ in range(1 + dice.below(3)):
            if not free:
                break
            place = free.pop(dice.below(len(free)))
            request = self.client.request(
                dice, place, self.opaque(*place), world.vbuckets[place[0]].high
            )
            if self.client.is_replication and dice.chance(25):
                request.flags = (
                    "takeover",
                    "active-only",
                    *(("cache-transfer",) if dice.chance(20) else ()),
                )
                request.end = ENDLESS
            ordered = self._order(request) if self.client.is_replication else None
            self.request(request)
            pending.append((request, ordered))
            if dice.chance(50):
                yield
        for request, ordered in pending:
            while dice.chance(20) and any(
                self.send_next(stream)
                for stream in list(self.streams.values())[:1]
                if self.has_room()
            ):
                yield
            rolled_back = self.answer(request)
            if ordered is not None and request.vbucket in {vbucket for vbucket, _ in self.streams}:
                # A consumer that was refused, or rolls back, has nothing to say yet.
                self.tell(
                    False,
                    "dcp_add_stream",
                    "response",
                    opaque=ordered,
                    status=SUCCESS,
                    stream_opaque=request.opaque,
                )
            yield
            if rolled_back and self.client.asks_back:
                yield from self._ask_log(world.vbuckets[request.vbucket])

    def _order(self, request: Request) -> int:
        """Whoever joins two nodes tells the consumer, which is the TCP server, to ask for a
        stream.
        """
        opaque = self.opaque()
        self.tell(
            True, "dcp_add_stream", vbucket=request.vbucket, opaque=opaque, flags=request.flags
        )
        return opaque

    def keep_alive(self) -> None:
        """Nobody is silent for two intervals of noops."""
        patience_ns = 1e9 * max(1.0, self.noop_interval_s)
        is_due = self.noop_interval_s and self.world.tape.now_ns - self.heard_ns > patience_ns
        if is_due and self.open_noop is None and not self.is_gone:
            self._ask_noop()
            self._answer_noop()

    def make_room(self) -> None:
        """A consumer that takes its time acknowledges at last."""
        if not self.has_room() and not self.is_gone:
            self.tell(self.up, "dcp_buffer_acknowledgement", opaque=0, ack_bytes=self.outstanding)
            self.outstanding = 0

    def has_room(self) -> bool:
        """Flow control lets the producer begin another message."""
        return not self.window or self.outstanding < self.window

    def places(self) -> list[Place]:
        """What this client may stream from this node."""
        sids = [1, 2] if self.client.terms.stream_ids else [0]
        vbuckets = [
            vb.number
            for vb in self.world.vbuckets.values()
            if (vb.node == self.node) != self.client.reads_replicas
        ]
        return [(number, sid) for number in vbuckets for sid in sids]

    def request(self, request: Request) -> None:
        """Ask for a stream."""
        parts: dict[str, Any] = {
            "vbucket": request.vbucket,
            "opaque": request.opaque,
            "flags": request.flags,
            "start_seqno": request.start,
            "end_seqno": request.end,
            "vbucket_uuid": request.uuid,
        }
        if self.client.terms.upr:
            parts |= {"generation": "upr", "high_seqno": request.start}
        else:
            parts |= {
                "snapshot_start_seqno": request.snapshot[0],
                "snapshot_end_seqno": request.snapshot[1],
            }
            if request.filter:
                parts["value"] = _json(request.filter)
        self.tell(self.up, "dcp_stream_req", **parts)

    def answer(self, request: Request) -> bool:
        """What the producer says to a stream request; True for a rollback."""
        vbucket = self.world.vbuckets[request.vbucket]
        place = request.vbucket, request.sid
        is_replica = vbucket.node != self.node
        position = self.client.position(place)

        def say(status: int, **parts: Any) -> bool:
            self.tell(
                not self.up,
                "dcp_stream_req",
                "response",
                opaque=request.opaque,
                status=status,
                **parts,
            )
            return status == ROLLBACK

        if place in self.streams:
            return say(KEY_EEXISTS)
        if is_replica and (not self.client.reads_replicas or "active-only" in request.flags):
            return say(NOT_MY_VBUCKET)
        if self.dice.chance(2):
            return say(ETMPFAIL)
        back = vbucket.rollback(
            request.start,
            request.snapshot,
            request.uuid,
            strict="strict-vbucket-uuid" in request.flags,
            keeps_purged="ignore-purged-tombstones" in request.flags,
        )
        if back is not None and "from-latest" not in request.flags:
            position.lose_from(back)
            if self.client.terms.upr and self.dice.chance(50):
                return say(ROLLBACK, rollback_seqno=back, generation="upr")
            return say(ROLLBACK, rollback_seqno=back)
        say(SUCCESS, log=list(vbucket.log))
        position.log = list(vbucket.log)
        stream = ServerStream.accepted(
            request,
            self.client.terms,
            vbucket,
            self.dice,
            merges=is_replica and request.vbucket in self.replicas,
        )
        position.begin()
        position.seqno = stream.position
        if "from-latest" in request.flags:
            position.snapshot = stream.position, stream.position
        self.streams[place] = stream
        return False

    def _write(self) -> Steps:
        self.world.write()
        yield

    def _noop(self) -> Steps:
        self._ask_noop()
        if self.dice.chance(30):
            yield
        self._answer_noop()
        yield

    def _ask_noop(self) -> None:
        self.noops += 1
        self.open_noop = swapped(_FIRST_NOOP + self.noops)
        self.tell(not self.up, "dcp_noop", opaque=self.open_noop)

    def _answer_noop(self) -> None:
        assert self.open_noop is not None
        self.tell(self.up, "dcp_noop", "response", opaque=self.open_noop, status=SUCCESS)
        self.open_noop = None

    def _close_stream(self) -> Steps:
        place = self.dice.pick(sorted(self.streams))
        stream = self.streams[place]
        opaque = (
            stream.request.opaque
            if self.client.opaques != "counting" or self.dice.chance(50)
            else self.opaque()
        )
        sid: dict[str, Any] = {"sid": place[1]} if place[1] else {}
        self.tell(self.up, "dcp_close_stream", vbucket=place[0], opaque=opaque, **sid)
        for _ in range(self.dice.below(3)):
            if not stream.is_ended and self.has_room():
                self.send_next(stream, waits=False)  # was under way
        yield
        if stream.is_ended:
            self.tell(not self.up, "dcp_close_stream", "response", opaque=opaque, status=KEY_ENOENT)
            return
        self.tell(not self.up, "dcp_close_stream", "response", opaque=opaque, status=SUCCESS)
        if self.client.terms.end_on_close:
            stream.must_end = "closed"
            self.make_room()
            self.send_next(stream)
        else:
            stream.is_ended = True
            del self.streams[place]
        yield

    def _end_stream(self) -> Steps:
        place = self.dice.pick(sorted(self.streams))
        stream = self.streams[place]
        reasons = ["state-changed", "too-slow", "backfill-failed"]
        if self.client.terms.collections:
            reasons += ["lost-privileges", "rollback"]
            if stream.is_filtered:
                reasons.append("filter-empty")
        stream.must_end = self.dice.pick(reasons)
        if self.dice.chance(70) and self.has_room():
            self.send_next(stream)
        yield

    def _failover_log(self) -> Steps:
        vbucket = self.dice.pick(list(self.world.vbuckets.values()))
        yield from self._ask_log(vbucket)

    def _ask_log(self, vbucket: Vbucket) -> Steps:
        log = list(vbucket.log)
        if vbucket.node == self.node or self.client.reads_replicas:
            yield from self.ask(
                self.up, "dcp_get_failover_log", {"log": log}, vbucket=vbucket.number
            )
            for place, position in self.client.positions.items():
                if place[0] == vbucket.number and place not in self.streams and position.log:
                    position.learn(log)
        else:
            yield from self.ask(
                self.up, "dcp_get_failover_log", {"status": NOT_MY_VBUCKET}, vbucket=vbucket.number
            )

    def _seqnos(self) -> Steps:
        """All high seqnos of a state, as far as the client's kind of connection sees them."""
        state = "replica" if self.client.reads_replicas else self.dice.pick(["active", "alive"])
        opaque = self.opaque()
        self.tell(True, "get_all_vb_seqnos", opaque=opaque, state=state)
        yield
        self.tell_seqnos(opaque, state)

    def tell_seqnos(self, opaque: int, state: str) -> None:
        """The answer to that question."""
        has_collections = self.client.terms.collections
        listed = [
            {"vbucket": vb.number, "seqno": vb.high if has_collections else vb.plain_high}
            for vb in self.world.vbuckets.values()
            if state == "alive" or (vb.node == self.node) == (state == "active")
        ]
        self.tell(
            False, "get_all_vb_seqnos", "response", opaque=opaque, status=SUCCESS, seqnos=listed
        )
        if state == "replica":
            self.replicas |= {
                vb.number for vb in self.world.vbuckets.values() if vb.node != self.node
            }

    def _observe(self) -> Steps:
        vbucket = self.dice.pick(list(self.world.vbuckets.values()))
        if vbucket.node != self.node:
            return
        uuid, high = vbucket.log[0][0], vbucket.high
        answer = {
            "observed_vbucket": vbucket.number,
            "vbucket_uuid": uuid,
            "last_persisted_seqno": high,
            "current_seqno": high,
        }
        yield from self.ask(
            True, "observe_seqno", answer, vbucket=vbucket.number, vbucket_uuid=uuid
        )

    def _change_window(self) -> Steps:
        if self.window:
            yield from self._control(
                "connection_buffer_size", str(self.window + 100 * self.dice.below(5))
            )
        else:
            yield

    def _idle(self) -> Steps:
        self.world.wait(self.dice.pick([300, 1_500, 6_000, 30_000]))
        yield

    def _ask_again(self) -> Steps:
        """For a stream that runs: refused."""
        place = self.dice.pick(sorted(self.streams))
        running = self.streams[place].request
        opaque = (
            0x5000 + len(self.world.tape.entries)
            if self.client.tells_opaques_apart
            else self.opaque(place[0])
        )
        again = Request(
            *place[:1],
            opaque,
            place[1],
            running.start,
            running.end,
            running.uuid,
            running.snapshot,
            (),
            None,
        )
        again.filter = {"sid": place[1]} if place[1] else None
        self.request(again)
        yield
        if place in self.streams:
            self.answer(again)
        else:
            self.tell(
                not self.up, "dcp_stream_req", "response", opaque=again.opaque, status=ETMPFAIL
            )

    def _ask_in_vain(self) -> Steps:
        """For what this node does not have, or must not give."""
        place = self.dice.pick(
            [(vb, 1 if self.client.terms.stream_ids else 0) for vb in (900, 901)]
        )
        request = Request(
            place[0],
            self.opaque(*place),
            place[1],
            0,
            ENDLESS,
            0,
            (0, 0),
            (),
            {"sid": place[1]} if place[1] else None,
        )
        self.request(request)
        yield
        status = self.dice.pick([NOT_MY_VBUCKET, ETMPFAIL, EACCESS, NOT_SUPPORTED])
        self.tell(not self.up, "dcp_stream_req", "response", opaque=request.opaque, status=status)

    def _close_in_vain(self) -> Steps:
        """For a stream that there is not: refused."""
        sid: dict[str, Any] = {"sid": 1} if self.client.terms.stream_ids else {}
        yield from self.ask(
            self.up,
            "dcp_close_stream",
            {"status": KEY_ENOENT},
            vbucket=900 + self.dice.below(2),
            **sid,
        )

    def _happen(self) -> Steps:
        """What concerns more than this connection."""
        self.world.happen()
        yield

    def _leave(self) -> Steps:
        """Most connections are closed in the end, by one side or the other; some are not."""
        how = self.dice.weighted(
            [
                (30, ""),
                (30, "client"),
                (15, "server"),
                (10, "client resets"),
                (10, "server resets"),
                (5, "unanswered"),
            ]
        )
        if how == "unanswered" and (
            free := [place for place in self.places() if place not in self.streams]
        ):
            self.request(
                self.client.request(
                    self.dice, free[0], self.opaque(*free[0]), self.world.vbuckets[free[0][0]].high
                )
            )
            self.world.wait(self.dice.pick([1, 3_000, 60_000]))
            yield
            how = self.dice.pick(["", "client", "server"])
        if how.split(" ")[0] in ("client", "server"):
            self.close(how.split(" ")[0], reset=how.endswith("resets"))
        yield

    def close(self, by: str, *, reset: bool = False) -> None:
        """The connection ends here; ``by`` nobody: its client vanished, and its next connection
        shows it.
        """
        if self.is_gone:
            return
        self.is_gone = True
        self.streams.clear()
        self.world.tape.entries.append(Closed(self.number, self.world.tick(), by, reset))


def _json(value: dict[str, Any]) -> str:
    import json

    return json.dumps(value, separators=(",", ":"))
