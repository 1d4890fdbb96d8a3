"""The page ``docs/state.md``: the records of streams, field by field, and the possible changes of
states, from their declarations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dcpinspect.kernels.structs import Field, Struct, StructRows
from dcpinspect.streams import records
from dcpinspect.streams import transitions as t


def state_page() -> str:
    """Returns the page as Markdown."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield "# The state of streams"
    yield ""
    yield (
        "For those who change `dcpinspect/streams/`. The page is made from `streams/records.py` "
        "and `streams/transitions.py` by"
    )
    yield "`python -m tests.pages`. [design.md](design.md) says how the records are used."
    yield ""
    yield (
        "Every field is an integer of 64 bits. Seqnos are biased by -2^63, so that signed "
        "integers compare as seqnos do."
    )
    yield from ("", "## States of a stream", "")
    yield from _transitions(t.STREAM_STATES, t.STREAM_TRANSITIONS)
    yield from ("", "## States of a snapshot", "")
    yield from _transitions(t.SNAPSHOT_STATES, t.SNAPSHOT_TRANSITIONS)
    for struct in _structs():
        yield from (
            "",
            f"## {struct.__name__}",
            "",
            " ".join((struct.__doc__ or "").split()),
            "",
            "| field | meaning | new |",
            "| --- | --- | --- |",
        )
        yield from map(_line, struct.fields.values())


def _structs() -> Iterator[type[Struct[Any]]]:
    for value in vars(records).values():
        if (
            isinstance(value, type)
            and issubclass(value, Struct)
            and value is not Struct
            and not issubclass(value, StructRows)
        ):
            yield value


def _transitions(words: Sequence[str], table: Mapping[int, Collection[int]]) -> Iterator[str]:
    yield from ("| state | may become |", "| --- | --- |")
    for state, after in table.items():
        yield (
            f"| {words[state]} | "
            f"{', '.join(words[later] for later in after) or 'nothing, it is the last'} |"
        )


def _line(field: Field) -> str:
    name = f"`{field.name}`" + (" by direction" if field.is_pair else "")
    meaning = field.meaning.replace("|", "\\|").replace("``", "`")
    if field.struct is not None:
        return f"| {name} | {meaning} A {field.struct.__name__}. | |"
    of = f" Number of one of the {field.of.replace('_', ' ')}." if field.of else ""
    return (
        f"| {name} | {meaning}{of} | "
        f"{'least seqno' if field.reset == records.LEAST else field.reset} |"
    )
