"""The documents are in plain English: short sentences, one word for one thing, none of the phrases that readers stumbled over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GENERATED = ("protocol.md", "rules.md", "state.md")
"""Pages whose words stand in the program."""
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED)]

BANNED = {
    r"what the captures? lacks?": "capture loss",
    r"what is not known is not judged": "where the capture cannot decide, there is no finding",
    r"nobody knows": "unknown",
    r"never begun": "never created in this capture",
    r"accuses? nobody": "is never blamed on the server or the client",
    r"the header still tells": "the header still has",
    r"nobody's leave": "without asking anybody",
    r"held? \w+ against": "compare with",
    r"for who(?:ever)? ": "for those who",
    r"partition uuid|vb ?uuid": "vbucket uuid",
    r"fail-over": "failover",
    r"roll-back": "rollback",
    r"dedup(?:ed)?\b": "de-duplicated",
    r"\bvbs?\b|partitions?\b": "vbucket",
    r"out-of-order snapshots?": "OSO snapshot",
    r"flow control window|window of flow control": "flow-control window",
    r"\bstream ids?\b": "stream-id",
    r"\bno-ops?\b": "noop",
    r"packet loss|lost in the capture": "capture loss",
}
"""Phrases that are not written, whatever their capitals, and what is said instead."""

MOST_WORDS = 30


@dataclass(frozen=True)
class Left:
    """How many places of a page are still to be mended."""

    phrases: int = 0
    chains: int = 0
    long: int = 0


STILL = {
    "docs/tui.md": Left(phrases=1, chains=5, long=5),  # its words stand in dcpinspect/tui/pictures.py and walks.py
}
"""Pages that are not yet in plain English. It only shrinks: who mends a sentence lowers the number."""


def prose(text: str) -> list[str]:
    """The paragraphs and list items of a page, without code, tables, headings and pictures; code in a sentence is one word."""
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?:#|\||!\[).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n", text, flags=re.MULTILINE)
    return [" ".join(block.split()) for block in re.split(r"\n\s*\n", text) if block.strip()]


def sentences(text: str) -> list[str]:
    return [sentence for block in prose(text) for sentence in re.split(r"(?<=[.!?])[\"')*]* (?=\S)", block)]


def too_long(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if len([word for word in sentence.split() if re.search(r"\w", word)]) > MOST_WORDS]


def chains_of_colons(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if len(re.findall(r":(?= |$)", sentence)) > 1]


def banned(text: str) -> list[str]:
    return [
        f"{found[0]!r} in {block!r}: write {better!r}"
        for block in prose(text)
        for phrase, better in BANNED.items()
        for found in re.finditer(phrase, block, re.IGNORECASE)
    ]


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_banned_phrase(page: str) -> None:
    found = banned(read(page))
    assert len(found) == STILL.get(page, Left()).phrases, "\n".join(found)


@pytest.mark.parametrize("page", PAGES)
def test_a_sentence_has_one_colon_at_most(page: str) -> None:
    found = chains_of_colons(read(page))
    assert len(found) == STILL.get(page, Left()).chains, "\n".join(found)


@pytest.mark.parametrize("page", PAGES)
def test_a_sentence_has_thirty_words_at_most(page: str) -> None:
    found = too_long(read(page))
    assert len(found) == STILL.get(page, Left()).long, "\n".join(found)


def test_pages_that_are_still_to_be_mended_are_pages() -> None:
    assert set(STILL) <= set(PAGES)
    assert all(left != Left() for left in STILL.values())


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
    ["what the capture lacks accuses", "it was never begun", "a fail-over", "an out-of-order snapshot", "and the\nflow control\nwindow"],
)
def test_banned_phrases_are_found_across_lines_and_in_any_case(text: str) -> None:
    assert banned(text)
    assert banned(f"`{text}`") == []
