"""Documents and messages are in plain English: what people read is held to the rules of
``tests/wording.py``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from dcpinspect.cli.main import DeferredCommand, program
from dcpinspect.findings.registry import RULES
from dcpinspect.output.render.glossary import GLOSSARY
from dcpinspect.text import entries
from dcpinspect.tui.key_bindings import KEYS
from tests.catalogue import each
from tests.wording import banned, chains_of_colons, sentences, too_long, unclear

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
FOLDERS = sorted(
    {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "dcpinspect").rglob("*.py")}
)
FEWEST_WORDS = 4
"""A string of fewer words is no sentence."""
NO_PROSE = re.compile(
    r"\s*(?:select|create|insert|with|case)\b|.*[\\^]|.*\b(?:int64|octets)\b", re.IGNORECASE
)
"""SQL, regular expressions and signatures of kernels."""


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def messages(source: str) -> Iterator[str]:
    """The texts in a module that have some words, without docstrings; a value put into a text is a
    word.
    """
    nodes = list(ast.walk(ast.parse(source)))
    left_out = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    left_out |= {
        id(part)
        for node in nodes
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if (
            id(node) not in left_out
            and len(re.findall(r"(?:^|\s)\W*[a-z]{2,}", text)) >= FEWEST_WORDS
            and not NO_PROSE.match(text)
        ):
            # a text of entries, such as the help of options; with a backslash, of patterns
            lines = entries(text) if text.startswith("\n") else [("", text)]
            yield from (body or head for head, body in lines if "\\" not in text)


def commands(group: typer.core.TyperGroup) -> Iterator[typer.core.TyperCommand]:
    """Every command with its own help and options, those of groups too."""
    for command in group.commands.values():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command)
        else:
            assert isinstance(command, DeferredCommand)
            yield command.load()


@each("page", PAGES)
def test_a_page_has_no_banned_phrase(page: str) -> None:
    found = banned(read(page))
    assert not found, "\n".join(found)


@each("page", PAGES)
def test_a_sentence_has_one_colon_at_most(page: str) -> None:
    found = chains_of_colons(read(page))
    assert not found, "\n".join(found)


@each("page", PAGES)
def test_a_sentence_has_thirty_words_at_most(page: str) -> None:
    found = too_long(read(page))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_the_modules_of_a_folder_say_is_plain(folder: str) -> None:
    modules = sorted((ROOT / folder).glob("*.py"))
    assert modules
    found = [
        f"{module}: {problem}"
        for module in modules
        for text in messages(module.read_text("utf-8"))
        for problem in unclear(text)
    ]
    assert not found, "\n".join(found)


def test_rules_are_plain() -> None:
    texts = [
        (rule, text) for rule, one in RULES.items() for text in (one.fires, one.unless, one.next)
    ]
    found = [f"{rule}: {problem}" for rule, text in texts for problem in unclear(text)]
    assert not found, "\n".join(found)


def test_words_of_the_glossary_and_keys_of_the_terminal_ui_are_plain() -> None:
    texts = [
        *(meaning for words in GLOSSARY.values() for meaning in words.values()),
        *(key.text for key in KEYS),
    ]
    found = [problem for text in texts for problem in unclear(text)]
    assert not found, "\n".join(found)


def test_the_help_of_every_command_is_plain() -> None:
    group = program()
    texts = [
        text
        for command in commands(group)
        for text in (command.help, *(getattr(option, "help", None) for option in command.params))
    ]
    assert len(texts) > 200, "the commands themselves were asked, not their names"
    found = [
        problem
        for text in [*texts, *(command.help for command in group.commands.values())]
        for problem in unclear(text or "")
    ]
    assert not found, "\n".join(found)


def test_the_glossary_explains_twenty_words_in_two_short_sentences_each() -> None:
    rows = re.findall(r"^\| (?!word|---)(.+?) \| (.+) \|$", read("docs/glossary.md"), re.MULTILINE)
    assert len({word for word, _ in rows}) == len(rows) == 20
    for word, meaning in rows:
        assert 1 <= len(sentences(meaning)) <= 2, word
        assert too_long(meaning) == banned(meaning) == chains_of_colons(meaning) == [], word


LONG = " ".join(["word"] * 31) + "."


def test_long_sentences_are_found_in_paragraphs_and_lists_and_not_in_tables_and_code() -> None:
    assert too_long(f"Short. {LONG}\n") == [LONG]
    assert too_long(f"- {LONG}\n- short\n") == [LONG]
    assert too_long(f"| {LONG} |\n\n```sh\n{LONG}\n```\n\n# {LONG}\n\n`{LONG}`\n") == []
    assert too_long(LONG.replace("word word ", "[word word](there.md) ")) == [LONG]


def test_chains_of_colons_are_found_and_times_are_not() -> None:
    assert chains_of_colons("One: two: three.") == ["One: two: three."]
    assert chains_of_colons("One: two. Three: at 12:03:41.") == []


@pytest.mark.parametrize(
    "text",
    [
        "what the capture lacks accuses",
        "it was never begun",
        "a fail-over",
        "an out-of-order snapshot",
        "and the\nflow control\nwindow",
    ],
)
def test_banned_phrases_are_found_across_lines_and_in_any_case(text: str) -> None:
    assert banned(text)
    assert banned(f"`{text}`") == []


def test_messages_are_found_in_their_parts_and_docstrings_are_not() -> None:
    source = (
        '"""one two three four"""\nsay(f"{name}: one two " f"three four {more}", "one two", '
        '"SELECT one two three four")\n'
    )
    assert list(messages(source)) == ["X: one two three four X"]
    assert unclear("one: two; three: four") == []
    assert unclear("one: two: three; four") == ["one: two: three"]
