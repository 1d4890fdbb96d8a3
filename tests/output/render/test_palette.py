from __future__ import annotations

from pathlib import Path

from dcpinspect.output.render.palette import (
    CAUSES,
    KINDS,
    PAINTS,
    SNAPSHOTS,
    VERDICTS,
    message_kinds,
)
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.words import CAUSES as ALL_CAUSES
from dcpinspect.streams.words import SNAPSHOT_TYPES, STOOD, STREAM_VERDICTS, VBUCKET_VERDICTS
from tests.catalogue import each

SAMPLES = Path(__file__).parents[3] / "sample_captures"


def test_each_verdict_cause_and_type_has_a_colour() -> None:
    assert set(VERDICTS) == {*VBUCKET_VERDICTS, *STREAM_VERDICTS, *STOOD}
    assert set(CAUSES) == set(ALL_CAUSES)
    assert set(SNAPSHOTS) == set(SNAPSHOT_TYPES)


def test_a_refusal_that_may_be_a_note_has_not_the_colour_of_errors() -> None:
    assert PAINTS["verdict-refused"] != PAINTS["severity-error"]


def test_a_refusal_has_not_the_colour_of_a_stall_and_disk_snapshots_have_not_that_of_charts() -> (
    None
):
    blues = {PAINTS[name] for name in ("chart-bar", "kind-marker")}
    assert PAINTS["verdict-refused"] != PAINTS["verdict-stalled"]
    assert PAINTS["snapshot-disk"] not in blues


def test_what_is_harmless_has_not_the_colour_of_warnings_and_lost_seqnos_have_it() -> None:
    yellows = {PAINTS["severity-warning"].text, PAINTS["verdict-orphaned"].text}
    assert not yellows & {kind.text for kind in KINDS.values()}, "bold yellow may look bright"
    assert PAINTS["cause-resumed"] == PAINTS["severity-warning"]


def _light(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """From 1 to 21; text needs 4.5."""
    darker, lighter = sorted((_light(one), _light(other)))
    return (lighter + 0.05) / (darker + 0.05)


@each("name", [name for name in PAINTS if not name.startswith("scale")])
def test_text_in_each_colour_can_be_read_on_either_background(name: str) -> None:
    assert contrast(PAINTS[name].dark, "#121212") >= 4.5
    assert contrast(PAINTS[name].light, "#e0e0e0") >= 4.5


def test_amounts_stand_out_more_from_level_to_level() -> None:
    for background, colours in (
        ("#121212", [PAINTS[f"scale-{level}"].dark for level in range(1, 9)]),
        ("#e0e0e0", [PAINTS[f"scale-{level}"].light for level in range(1, 9)]),
    ):
        ratios = [contrast(colour, background) for colour in colours]
        assert ratios == sorted(ratios)
        assert ratios[0] > 1.9, "a little is seen, too"


def test_kinds_are_those_of_the_names_and_statuses() -> None:
    expected = {
        "dcp_mutation": "item",
        "dcp_deletion": "removal",
        "dcp_snapshot_marker": "marker",
        "dcp_noop": "upkeep",
        "dcp_system_event": "system-event",
        "dcp_stream_end": "end",
        "dcp_open": "request",
    }
    names, seen = list(KINDS), set()
    with Reading([str(SAMPLES / "rollback.pcap")]) as reading:
        for batch in reading:
            for index, kind in enumerate(message_kinds(batch.decoded).tolist()):
                name, is_response = batch.name_of(index), bool(batch.decoded.is_response[index])
                seen.add(names[kind])
                if not is_response and name in expected:
                    assert names[kind] == expected[name]
                if is_response and name == "dcp_stream_req":
                    status = int(batch.decoded.specific[index])
                    assert names[kind] == {0: "response", 0x23: "rollback"}.get(status, "refusal")
    assert {"item", "marker", "request", "response", "rollback", "end"} <= seen
