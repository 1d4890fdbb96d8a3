"""Which findings ``check`` tells of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.cli.main import main
from dcpinspect.findings.registry import RULES
from tests.captures import field, real_server
from tests.peers.truth import SAMPLES
from tests.streams.told import Told, capture, opened

LOOP, ORPHANS, ROLLBACK, TOUR = (
    str(SAMPLES / name) for name in ("loop.pcap", "orphans.pcap", "rollback.pcap", "tour.pcapng")
)


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["check", *arguments, "--fail-on", "never", "-f", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_finding_is_cut_down_to_the_vbuckets_that_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    several = {one["rule"]: one for one in found(capsys, ORPHANS, "--vbucket", "45,48")}
    assert several["orphaned-vbucket"]["vbuckets"] == [45]
    assert several["orphaned-vbucket"]["message"].startswith(
        'ended "state-changed", never reopened'
    )
    assert several["rollback-not-followed"]["vbuckets"] == [48]
    assert "credentials-in-clear" not in several


def test_connections_and_clients_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    connections = {
        one["rule"]: one["connections"] for one in found(capsys, LOOP, "--connection", "2-3")
    }
    # a loop goes round on several, and is one case
    assert connections.pop("rollback-loop") == [2, 3, 4, 5]
    assert {number for numbers in connections.values() for number in numbers} == {2, 3}
    assert {
        client for one in found(capsys, TOUR, "--client", "CBAS") for client in one["clients"]
    } == {"10.11.0.1 cbas"}


@pytest.mark.parametrize("asked", ["10.11.0.1:50001", "secidx:orders-1"])
def test_a_client_is_chosen_by_what_connections_lists(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of_client = found(capsys, TOUR, "--client", asked)
    assert of_client
    assert of_client == found(capsys, TOUR, "--connection", "2")


def test_of_a_vbucket_is_what_stopped_its_connection(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(real_server("noop-timeout"))
    assert [one["rule"] for one in found(capsys, path, "--vbucket", "0")] == ["noop-unanswered"]


@pytest.mark.parametrize(("vbucket", "is_borne"), [("1", True), ("2", False), ("9", False)])
def test_what_its_connection_bears_is_nothing_to_a_vbucket_that_is_not_open_then(
    vbucket: str, is_borne: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``timeline`` tells it: the stream of 2 ended before the clash, that of 1 did not, and 9
    was refused.
    """
    path = str(real_server("6.0.5-dcp1"))
    rules = [one["rule"] for one in found(capsys, path, "--vbucket", vbucket)]
    assert ("name-clash" in rules) is is_borne
    main(["timeline", path, "--vbucket", vbucket])
    assert ("about its connection;" in capsys.readouterr().out) is is_borne


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--client", "nobody"], "no client has nobody in its address or DCP name"),
        (["--client", "10.11.0.2"], "no client has 10.11.0.2 in its address or DCP name"),
        (["--connection", "99"], "there is no such connection among 7"),
        (["--vbucket", "5000"], "there is no stream of such a vbucket"),
        (["--since", "2030-01-01"], "no connection goes on in that time"),
        (["--until", "0s"], "no connection goes on in that time"),
    ],
)
def test_what_is_nowhere_is_not_right(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", TOUR, *asked]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines() == ["nothing was checked"]
    assert err == (
        f"dcpinspect: nothing was checked: {said}; 'dcpinspect connections' and 'dcpinspect "
        "vbuckets' list all\n"
    )


def test_a_copy_stands_for_the_connection_that_counts(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(field("z-dnat-p05-one-rollback-reopens-all"))
    assert main(["connections", path, "-f", "ndjson"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    copy_of = {one["connection"]: one["copy_of"] for one in rows if one["copy_of"]}
    assert copy_of
    for copy, counts in copy_of.items():
        of_copy = [
            (one["rule"], one["rows"]) for one in found(capsys, path, "--connection", str(copy))
        ]
        of_counted = [
            (one["rule"], one["rows"]) for one in found(capsys, path, "--connection", str(counts))
        ]
        assert of_counted or counts > 1
        assert [one for one in of_copy if one[0] != "seen-twice"] == of_counted


def test_severity_is_that_and_worse(capsys: pytest.CaptureFixture[str]) -> None:
    assert {one["severity"] for one in found(capsys, TOUR, "--severity", "warning")} == {
        "error",
        "warning",
    }
    assert {one["severity"] for one in found(capsys, TOUR, "--severity", "error")} == {"error"}


def test_a_span_of_time_leaves_what_goes_on_in_it_and_the_verdict_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is still open goes on to the end."""
    every = [case for one in found(capsys, LOOP) for case in one["cases"]]
    middle = "2024-04-06T12:01:01.002000000Z"
    several = found(capsys, LOOP, "--since", middle)
    cases = [case for one in several for case in one["cases"]]
    wanted = [one for one in every if one["last_time"] >= middle or one["over"] == "open"]
    assert sorted(map(str, cases)) == sorted(map(str, wanted))
    assert 0 < len(cases) < len(every)
    early = [case for one in found(capsys, LOOP, "--until", middle) for case in one["cases"]]
    assert [one["message"] for one in early] == [
        one["message"] for one in every if one["first_time"] < middle
    ]
    told = {}
    for arguments in (
        ("--since", middle),
        ("--until", middle),
        ("--since", "0s", "--until", middle),
        ("--until", "1ms"),
    ):
        main(["check", LOOP, *arguments, "--fail-on", "never"])
        told[arguments] = capsys.readouterr().out.splitlines()[0]
    assert [line.rpartition(" · ")[2] for line in told.values()] == [
        "from 12:01:01.002 UTC on",
        "before 12:01:01.002 UTC",
        "before 12:01:01.002 UTC",
        "before 12:01:00.985 UTC",
    ]
    assert told["--until", "1ms"].startswith("nothing wrong in what was asked for, of ")


def test_the_exit_status_is_that_of_the_span(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", LOOP, "--since", "-20ms"]) == 1
    assert main(["check", LOOP, "--until", "1ms"]) == 0
    assert main(["check", LOOP, "--since", "soon"]) == 2
    assert "--since soon: write a time in UTC" in capsys.readouterr().err
    assert main(["check", LOOP, "--since", "5m", "--until", "1m"]) == 2
    assert capsys.readouterr().err == "dcpinspect: --until: is before --since; give a later time\n"


def test_a_filter_speaks_of_the_columns_of_findings(capsys: pytest.CaptureFixture[str]) -> None:
    whole = found(capsys, TOUR)
    several = found(capsys, TOUR, "--filter", "whose = 'server' and severity != 'note'")
    assert (
        several
        == [one for one in whole if one["whose"] == "server" and one["severity"] != "note"]
        != []
    )


def test_the_worst_come_first_and_bring_their_effects(capsys: pytest.CaptureFixture[str]) -> None:
    several = found(capsys, LOOP, "-n", "1")
    assert {one["rule"] for one in several if one["effect_of"] is None} == {"rollback-loop"}
    assert {one["effect_of"] for one in several} == {None, several[0]["id"]}
    assert main(["check", LOOP, "-n", "0"]) == 2, "no finding asked for is not nothing wrong"
    assert "--limit 0: write a whole number, 1 or more" in capsys.readouterr().err


def test_columns_make_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ORPHANS, "--columns", "rule,severity,count", "--severity", "error"]) == 1
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["rule", "severity", "count"],
        ["rollback-not-followed", "error", "1"],
        ["orphaned-vbucket", "error", "2"],
    ]
    (first, _) = found(capsys, ORPHANS, "--columns", "rule,severity", "--severity", "error")
    assert {name: first[name] for name in first if name != "schema"} == {
        "rule": "rollback-not-followed",
        "severity": "error",
    }


def test_the_exit_status_is_that_of_what_is_told() -> None:
    assert main(["check", ORPHANS]) == 1
    assert main(["check", ORPHANS, "--vbucket", "40"]) == 0


@pytest.mark.parametrize("asked", ["--connection", "--vbucket"])
def test_who_was_thrown_out_for_a_name_is_told_why(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    number = {"--connection": "2", "--vbucket": "1"}[asked]
    for name in ("6.0.5-dcp1", "name-clash-dup"):
        several = {one["rule"]: one for one in found(capsys, str(real_server(name)), asked, number)}
        clash = several["name-clash"]
        assert clash["connections"] == [2, 3]
        # no trouble of its own
        silent = several.get("silent-connection", clash)
        assert silent is clash or silent["effect_of"] == clash["id"]


@pytest.mark.parametrize("vbucket", ["8", "7"])
def test_what_was_asked_for_is_said_to_be_right_also_if_it_has_notes(
    vbucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", ROLLBACK, "--vbucket", vbucket]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "no errors or warnings in what was asked for: "
        if vbucket == "7"
        else "nothing wrong in what was asked for, of 161 messages, 11 streams, "
    )
    assert ("· rollback: " in said) == (vbucket == "7")
    assert "of 161 messages, 11 streams, 100 % of bytes decoded" in " ".join(said.split())


def test_a_filter_that_leaves_everything_in_is_not_spoken_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", ROLLBACK, "--severity", "note"]) == 0
    assert capsys.readouterr().out.startswith("no errors or warnings: ")


def test_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--list-rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        [rule.id, rule.severity, rule.family] for rule in RULES.values()
    ]


# -- a gate for CI
# --------------------------------------------------------------------------------------------------


def stuck(*vbuckets: int, port: int = 50_000) -> Told:
    """A client that leaves these vbuckets alone after a rollback."""
    talk = opened("kafka:1", port=port)
    other = talk.stream(1)
    for vbucket in vbuckets:
        talk.stream(vbucket, start=900, uuid=0xA, rollback=13)
    talk.wait(9)
    other.snapshot(0, 3, "memory")
    other.mutation(3, "k")
    return talk


@pytest.mark.parametrize("format_", ["json", "ndjson"])
def test_what_a_baseline_has_is_left_out_and_what_is_new_is_told(
    format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, now, baseline = (
        str(tmp_path / name) for name in ("before.pcap", "now.pcap", f"base.{format_}")
    )
    Path(before).write_bytes(capture(stuck(7, 8)))
    Path(now).write_bytes(capture(stuck(8, 9, port=50_009)))
    assert main(["check", before, "-o", baseline]) == 1
    assert main(["check", before, "--baseline", baseline]) == 0
    assert capsys.readouterr().out.startswith("nothing new is wrong: ")
    assert [
        (one["rule"], one["vbuckets"]) for one in found(capsys, now, "--baseline", baseline)
    ] == [
        ("rollback-not-followed", [9]),
        ("rollback", [9]),
    ]
    assert main(["check", now, "--baseline", baseline]) == 1


def test_what_became_worse_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, baseline = str(tmp_path / "now.pcap"), tmp_path / "base.json"
    Path(path).write_bytes(capture(stuck(7)))
    assert main(["check", path, "-f", "json", "-o", str(baseline)]) == 1
    records = json.loads(baseline.read_text("utf-8"))
    baseline.write_text(json.dumps([{**one, "severity": "note"} for one in records]), "utf-8")
    assert "rollback-not-followed" in {
        one["rule"] for one in found(capsys, path, "--baseline", str(baseline))
    }


def test_an_empty_baseline_knows_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "base.json").write_text("[]", "utf-8")
    assert found(capsys, LOOP, "--baseline", str(tmp_path / "base.json")) == found(capsys, LOOP)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--baseline", "/nowhere/base.json"],
            "--baseline /nowhere/base.json: there is no such file; check the name",
        ),
        (["--baseline", LOOP], f"--baseline {LOOP}: not what check --format json writes"),
        (["--vbucket", "x"], "--vbucket 'x': 'x' is no number"),
        (["--columns", "rul"], "--columns rul: findings have no such column; did you mean rule"),
        (["--filter", "colour = 1"], "--filter"),
        (["--severity", "bad"], "--severity bad: write error, warning or note"),
    ],
)
def test_what_cannot_be_chosen_is_said(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", LOOP, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"dcpinspect: {says}")
    assert captured.out == ""


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        '[{"rule": 5}]',
        '{"severity": "error"}',
        '[{"rule":"a","severity":"x","cases":[]}]',
        "\x00",
        '[{"severity":"error","rule":"r","cause":null,"cases":[{"client":5,"vbuckets":[]}]}]',
    ],
)
def test_a_baseline_that_is_none_is_said_in_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "base.json").write_text(text, "utf-8")
    assert main(["check", LOOP, "--baseline", str(tmp_path / "base.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
