"""Units are files as they were found, each once, in the order in which they were written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.spark.units import Unit, check_rule, digested, files_of, in_order, units_of

PCAP = bytes.fromhex("d4c3b2a1") + b"\0" * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "node1/ring_1.pcap",
        "node1/ring_2.pcap.gz",
        "node2/no-ending",
        "node2/notes.txt",
        "node2/.hidden.pcap",
        "out/x.pcap",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"text" if name.endswith("txt") else PCAP)
    return tmp_path


def test_a_directory_gives_its_captures_by_name_or_by_how_they_begin(folder: Path) -> None:
    found = list(files_of([str(folder)], without=str(folder / "out")))
    assert [os.path.relpath(path, folder) for path in found] == [
        "node1/ring_1.pcap",
        "node1/ring_2.pcap.gz",
        "node2/no-ending",
    ]


def test_no_file_comes_twice_and_what_is_named_comes_whatever_it_is(folder: Path) -> None:
    (folder / "link.pcap").symlink_to(folder / "node1" / "ring_1.pcap")
    names = [
        str(folder / "node2" / "notes.txt"),
        str(folder / "node1" / "*.pcap"),
        str(folder / "link.pcap"),
    ]
    assert list(files_of(names, without="")) == [names[0], str(folder / "node1" / "ring_1.pcap")]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("-", "a pipeline reads files"),
        ("nosuch", "is missing"),
        ("*.nosuch", "no file matches"),
        ("", "an empty name: is missing"),
    ],
)
def test_what_is_not_there_is_told(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        files_of([name], without="")


def test_an_empty_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no captures in it"):
        files_of([str(tmp_path)], without="")


@pytest.mark.parametrize(
    ("rule", "points"),
    [("dir", {"node1", "node2"}), ("name:all", {"all"}), ("stem", {"ring", "no-ending"})],
)
def test_points(folder: Path, rule: str, points: set[str]) -> None:
    units, known = units_of(
        files_of([str(folder / "node1"), str(folder / "node2")], without=""), check_rule(rule), {}
    )
    assert {unit.point for unit in units} == set(known.values()) == points
    with pytest.raises(UsageError, match="--capture-point x: files belong together"):
        check_rule("x")


def test_points_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / place / "ring" / "a.pcap" for place in ("east", "west")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(PCAP)
    assert [unit.point for unit in units_of({str(path): "" for path in paths}, "dir", {})[0]] == [
        "ring",
        "west/ring",
    ]


def test_a_unit_is_its_bytes_and_knows_what_continues_it(tmp_path: Path) -> None:
    one, other = tmp_path / "a.pcap", tmp_path / "b.pcap"
    one.write_bytes(PCAP)
    other.write_bytes(PCAP)
    first, second = map(digested, units_of({str(one): "", str(other): ""}, "dir", {})[0])
    assert first.identity == second.identity
    assert not first.is_continued_by(str(other))
    other.write_bytes(PCAP + b"more")
    assert first.is_continued_by(str(other))
    other.write_bytes(b"X" + PCAP)
    assert not first.is_continued_by(str(other))
    (missing,), _ = units_of({str(tmp_path / "c.pcap"): ""}, "dir", {})
    missing = digested(missing)
    assert (missing.size, missing.head) == (0, "")


def test_nobody_looks_at_the_bytes_of_a_file_that_has_not_changed(folder: Path) -> None:
    path = str(folder / "node1/ring_1.pcap")
    (first,), points = units_of(files_of([path], without=""), "dir", {})
    assert (first.head, first.size) == ("", len(PCAP))
    known = digested(first)
    (again,), _ = units_of(files_of([path], without=""), "dir", points, [known])
    assert again is known
    os.utime(path, ns=(0, 1))
    (touched,), _ = units_of(files_of([path], without=""), "dir", points, [known])
    assert not touched.head
    assert digested(touched).identity == known.identity


def named(*names: tuple[str, int | None]) -> list[tuple[Unit, int | None]]:
    return [(Unit(name, name, "p", 1), time) for name, time in names]


@pytest.mark.parametrize(
    ("units", "order"),
    [
        ((("r_10", 30), ("r_9", 20), ("r_2", 10)), ["r_2", "r_9", "r_10"]),
        (
            (("r_1", 30), ("r_2", 10), ("r_3", 20)),
            ["r_2", "r_3", "r_1"],
        ),  # a ring that has begun again
        (
            (("r_1", 11), ("r_2", 10), ("r_3", 12)),
            ["r_1", "r_2", "r_3"],
        ),  # a clock that was set does not order files
        ((("b", 1), ("a", 2), ("c", None)), ["b", "a", "c"]),
    ],
)
def test_order(units: tuple[tuple[str, int | None], ...], order: list[str]) -> None:
    begun = [(unit, None if time is None else (time, 1)) for unit, time in named(*units)]
    assert [unit.name for unit in in_order(begun)] == order
