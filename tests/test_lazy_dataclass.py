"""Records do what those of ``dataclasses`` do."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from typing import Any, ClassVar

import pytest

import dcpinspect
from dcpinspect.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A record that nobody changes."""

    dimensions: ClassVar[int] = 2
    x: int
    y: int = 0
    note: str = dataclasses.field(default="", compare=False)
    marks: tuple[int, ...] = dataclasses.field(default=(), kw_only=True, repr=False)


@dataclass(slots=True)
class Counts:
    """A record that changes."""

    total: int = 0
    by_kind: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, kind: str) -> None:
        self.total += 1
        self.by_kind[kind] = self.by_kind.get(kind, 0) + 1


def test_records_compare_hash_and_print_their_fields() -> None:
    assert Point(1) == Point(1, 0, "other note", marks=())
    assert hash(Point(1)) == hash(Point(1, 0, "other note")) == hash((1, 0, ()))
    assert Point(1) != Point(1, marks=(2,))
    other: Any = (1, 0, ())
    assert Point(1) != other
    assert repr(Point(1, marks=(2,))).endswith("Point(x=1, y=0, note='')")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counts())


def test_each_record_has_its_own_default_of_a_factory() -> None:
    first, second = Counts(), Counts()
    first.add("mutation")
    assert (first.by_kind, second.by_kind) == ({"mutation": 1}, {})


def test_a_frozen_record_cannot_be_changed() -> None:
    point: Any = Point(1)
    for name in ("x", "z"):
        with pytest.raises(
            dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"
        ):
            setattr(point, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert point == Point(1)


def test_records_are_copied_pickled_and_replaced_whole() -> None:
    point = Point(1, 2, "here", marks=(3,))
    counts = Counts(2, {"mutation": 2})
    for record in (point, counts):
        for other in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):  # noqa: S301 - our own bytes
            assert dataclasses.asdict(other) == dataclasses.asdict(record)
    assert dataclasses.replace(point, y=5) == Point(1, 5, marks=(3,))
    assert [field.name for field in dataclasses.fields(Point)] == ["x", "y", "note", "marks"]
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_wrong_arguments_are_refused() -> None:
    wrong: Any = Point
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        wrong()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        wrong(1, z=3)


def _records() -> list[Any]:
    names = [module.name for module in pkgutil.walk_packages(dcpinspect.__path__, "dcpinspect.")]
    modules = [
        importlib.import_module(name)
        for name in names
        if not name.endswith((".__main__", ".machine_code"))
    ]
    values = [
        value
        for module in modules
        for value in vars(module).values()
        if getattr(value, "__module__", "") == module.__name__
    ]
    return [
        value
        for value in values
        if isinstance(value, type) and hasattr(vars(value).get("__dataclass_fields__"), "original")
    ]


def test_each_record_of_the_package_takes_what_dataclasses_would_give_it() -> None:
    records = _records()
    assert len(records) > 250
    for record in records:
        with pytest.raises(TypeError):
            record(no_such_field=1)
        found = [
            (one.name, one.kind is one.KEYWORD_ONLY, one.default is one.empty)
            for one in inspect.signature(record).parameters.values()
        ]
        expected = [
            (
                field.name,
                field.kw_only is True,
                field.default is field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(record)
        ]
        assert found == sorted(expected, key=lambda facts: facts[1]), record
