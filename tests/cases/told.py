"""A case is told as a script, written as a capture file, and checked as a user checks a file."""

from __future__ import annotations

import re
from pathlib import Path

from dcpinspect.findings.finding import Finding
from dcpinspect.output.render.finding_text import report_lines
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.tables import Tables
from tests.agreement import complaints
from tests.builders import Recorded, pcap
from tests.streams.told import Told, packets

NEW, OLD = 0xB, 0xA


class Case:
    """What ``dcpinspect`` says of conversations."""

    def __init__(self, path: Path, *talks: Told, at_once: bool = False) -> None:
        """``at_once``: the conversations run side by side from the same moment; else one after the
        other.
        """
        if at_once:
            captured = sorted(
                (packet for talk in talks for packet in packets(talk)),
                key=lambda packet: packet.time_ns,
            )
        else:
            captured = packets(*talks)
        path = path / "case.pcap"
        path.write_bytes(
            pcap(
                [Recorded(packet.data, packet.wire, packet.time_ns) for packet in captured],
                magic=0xA1B23C4D,
            )
        )
        with Reading([str(path)], track=True) as reading:
            reading.check()
            self._names: dict[int, str] = {}
            for batch in reading:
                sides = batch.decoded.is_response.tolist()
                for row, opcode, is_answer in zip(
                    batch.row.tolist(), batch.decoded.opcode.tolist(), sides, strict=True
                ):
                    self._names[row] = opcode_name(opcode).removeprefix("dcp_") + (
                        " answer" if is_answer else ""
                    )
            self.findings: list[Finding] = reading.findings()
            self.tables: Tables = reading.tables
            wrong = complaints(
                {name: table.records() for name, table in self.tables.by_name.items()},
                self.findings,
            )
            assert not wrong, "\n".join(wrong)
            looked = LookedAt.from_reading(reading)
        lines = list(
            report_lines(
                self.findings, [path.name], lambda text, _: text, width=80, looked=looked, limit=25
            )
        )
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 80
        assert not re.match(r"\d+ (?:other )?(?:error|warning)", lines[0]), (
            "the verdict has words for what a case is about"
        )

    @property
    def accusations(self) -> list[str]:
        """Rules of errors and warnings."""
        return sorted(one.rule for one in self.findings if one.severity != "note")

    def finding(self, rule: str) -> Finding:
        """The one finding of a rule."""
        (one,) = (one for one in self.findings if one.rule == rule)
        return one

    def shows(self, rule: str) -> list[str]:
        """The messages that show it, the faulty one first."""
        return [self._names[place.row] for place in self.finding(rule).places]
