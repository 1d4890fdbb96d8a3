"""Names say what they name. These tests count names that say nothing: pronouns, participles and
words for anything, such as ``it``, ``found`` and ``place``.

Programs whose names are easy to follow, counted in the same way:

- dnspython, mitmproxy, harlequin, and httpx with h11: 0 to 1.0 % of assignments, 0 to 0.8 % of
  functions.
- dnspython: 3 class names that stand in three modules or more; mitmproxy: 2; harlequin: 0.

Who makes a name better lowers the bounds.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import dcpinspect

PACKAGE = Path(dcpinspect.__file__).parent
WEAK_WORDS = frozenset(
    """
    all asked at chosen each found given here it kept known left mine of one ones opened other
    others out own part parts place places rest room said shown some that these this those told
    wanted way what which who whole why
    """.split()  # noqa: SIM905 - a word a line would be long
)
WEAK_VERBS = frozenset(("go", "look", "put", "say", "take", "tell"))


def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py"))]


def is_terminal_ui(path: Path) -> bool:
    return path.is_relative_to(PACKAGE / "tui")


def assigned(tree: ast.Module) -> Iterator[str]:
    """Names that something is assigned to: locals, loop variables, and fields of dataclasses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name.lstrip("_")


def classes(tree: ast.Module) -> set[str]:
    """Names of classes, and of types that a module gives a name."""
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)} | {
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.lstrip("_")[:1].isupper()
        and not node.targets[0].id.isupper()
        and len(node.targets[0].id) > 1  # T, and other names of type variables
    }


def percent_of_weak(names: list[str], weak_words: frozenset[str]) -> float:
    return 100 * sum(name in weak_words for name in names) / len(names)


@pytest.fixture(scope="module")
def all_modules() -> list[tuple[Path, ast.Module]]:
    return modules()


@pytest.mark.parametrize(("is_ui", "most"), [(False, 0.7), (True, 1.0)])
def test_few_assignments_go_to_names_that_say_nothing(
    all_modules: list[tuple[Path, ast.Module]], is_ui: bool, most: float
) -> None:
    names = [
        name
        for path, tree in all_modules
        if is_terminal_ui(path) is is_ui
        for name in assigned(tree)
    ]
    assert percent_of_weak(names, WEAK_WORDS) <= most


@pytest.mark.parametrize(("is_ui", "most"), [(False, 0.4), (True, 0.2)])
def test_few_functions_have_names_that_say_nothing(
    all_modules: list[tuple[Path, ast.Module]], is_ui: bool, most: float
) -> None:
    names = [
        name
        for path, tree in all_modules
        if is_terminal_ui(path) is is_ui
        for name in functions(tree)
    ]
    assert percent_of_weak(names, WEAK_WORDS | WEAK_VERBS) <= most


def test_few_class_names_stand_in_three_modules(
    all_modules: list[tuple[Path, ast.Module]],
) -> None:
    counts = Counter(name for _, tree in all_modules for name in classes(tree))
    assert len([name for name, count in counts.items() if count >= 3]) <= 1


def test_few_module_names_stand_in_two_folders(
    all_modules: list[tuple[Path, ast.Module]],
) -> None:
    counts = Counter(path.stem for path, _ in all_modules if path.stem != "__init__")
    assert len([name for name, count in counts.items() if count >= 2]) <= 9


def test_what_is_counted_is_what_a_module_names() -> None:
    tree = ast.parse(
        "Kind = int\nMOST = 3\nclass _Run:\n    place: int\n    def _take(self, found):\n"
        "        found, gap = found\n        return [one for one in found]\n"
    )
    assert sorted(assigned(tree)) == ["Kind", "MOST", "found", "gap", "one", "place"]
    assert list(functions(tree)) == ["take"]
    assert classes(tree) == {"Kind", "_Run"}
    assert percent_of_weak(["found", "gap", "one", "row"], WEAK_WORDS) == 50
