"""Checks which values a filter may compare with a column: this depends on the column's kind."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from dcpinspect.tables.column_kinds import Column, KindFamily
from dcpinspect.tables.filter_tree import (
    ColumnName,
    Compare,
    Condition,
    Constant,
    Holds,
    In,
    Like,
    Not,
    Operator,
    Or,
    TextPosition,
)
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.tables.vocabulary import (
    Vocabulary,
    commands_with,
    named_numbers,
    numbers_by_word,
    vocabulary,
)
from dcpinspect.text import clip, did_you_mean, escape

_MIRRORED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NAMES_OF = {"opcode": "name", "status": "status_name"}
_NUMBERS_OF = {names: numbers for numbers, names in _NAMES_OF.items()}
_ADDRESSES = ("client", "server")

_HEX = re.compile(r"0[xX]([0-9a-fA-F]{1,16})")
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ "
    r"T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_SHOWN = 40
"""Number of columns of a value that an error repeats."""


def family(column: Column) -> KindFamily:
    """Returns the family of a column's values."""
    assert column.family is not None, column  # other columns are not among those of a filter
    return column.family


def comparison(
    operator: Operator,
    left_side: ColumnName | Constant,
    right_side: ColumnName | Constant,
    position: TextPosition,
) -> Condition:
    """Returns the condition of a comparison. ``position``: of the operator. Raises PlacedError."""
    if isinstance(left_side, Constant):
        if isinstance(right_side, Constant):
            raise left_side.place.error("both sides are values; compare a column with a value")
        operator = _MIRRORED.get(operator, operator)
        left_side, right_side = right_side, left_side
    if isinstance(right_side, ColumnName):
        _check_families(left_side, right_side)
        return Compare(operator, left_side, right_side)
    value = constant(left_side, right_side)
    if family(left_side.column) == "list":
        if operator not in ("=", "<>"):
            possible = (
                "a number (= 5) or not (<> 5)"
                if left_side.column.kind == "numbers"
                else "a word (= 'x') or not (<> 'x')"
            )
            raise position.error(
                f"{left_side.column.name} is {_family_text(left_side.column)}: it has {possible}, and no order"
            )
        return Holds(left_side, value) if operator == "=" else Not(Holds(left_side, value))
    if family(left_side.column) == "truth" and operator not in ("=", "<>"):
        raise position.error(f"{left_side.column.name} is true or false, and has no order")
    return Compare(operator, _numeric_time(left_side), value)


def membership(column: ColumnName, values: list[Constant]) -> Condition:
    """Returns the condition of ``in``. Raises PlacedError."""
    constants = tuple(constant(column, value) for value in values)
    if family(column.column) == "list":
        if len(constants) > 1:
            return Or(tuple(Holds(column, value) for value in constants))
        return Holds(column, constants[0])
    return In(_numeric_time(column), constants)


def likeness(
    column: ColumnName, pattern: Constant, escape_by: Constant | None, position: TextPosition
) -> Condition:
    """Returns the condition of ``like``. ``position``: of the operator. Raises PlacedError."""
    if family(column.column) not in ("text", "hex"):
        raise position.error(
            f"like is for text, and {column.column.name} is {_family_text(column.column)}"
        )
    if not isinstance(pattern.value, str):
        raise pattern.place.error("like takes a pattern in single quotes, as in 'user::%'")
    sign = None if escape_by is None else _sign(escape_by)
    # engines disagree about an escape sign before any other character
    if sign is not None and re.search(
        f"{re.escape(sign)}(?![%_])", pattern.value.replace(sign * 2, "")
    ):
        raise pattern.place.error(
            f"after the escape {escape(sign)} only %, _ or {escape(sign)} may stand"
        )
    text = pattern.value.lower() if family(column.column) == "hex" else pattern.value
    return Like(column, text, sign)


def _sign(constant: Constant) -> str:
    if not isinstance(constant.value, str) or len(constant.value) != 1 or constant.value in "%_":
        raise constant.place.error("escape takes one character, as in escape '!'")
    return constant.value


def _check_families(left: ColumnName, right: ColumnName) -> None:
    left_family, right_family = family(left.column), family(right.column)
    if left_family != right_family:
        raise right.place.error(
            f"{right.column.name} is {_family_text(right.column)}, and {left.column.name} is "
            f"{_family_text(left.column)}"
        )
    if left_family in ("list", "records"):
        raise right.place.error("lists cannot be compared with each other")


def constant(column: ColumnName, constant: Constant) -> Constant:
    """Returns a value in the form of the column that it is compared with. Raises PlacedError if the
    column cannot have it.
    """
    return Constant(_value(column.column, constant), constant.place)


def _value(column: Column, constant: Constant) -> int | str | bytes | bool:
    value, error = constant.value, constant.place.error
    match family(column):
        case "number" if type(value) is int:
            bits = int(column.kind[1:])  # as in u16 or i64
            low, high = (0, 2**bits - 1) if column.kind[0] == "u" else (-(2**63), 2**63 - 1)
            if not low <= value <= high:
                raise error(f"{column.name} is from {low} to {high}")
            return value
        case "number" if isinstance(value, str) and (named := _named_number(column, value)):
            word, number = named
            if commands := commands_with(column, word):
                written = ", ".join(f"'{command}'" for command in commands)
                raise error(
                    f"not every {column.name} of {number} is '{word}': write "
                    f"name in ({written}) and {column.name} = {number}"
                )
            return number
        case "list" if type(value) is int and column.kind == "numbers":
            return value
        case "text" | "list" if isinstance(value, str) and column.kind != "numbers":
            return _word(column, value, constant.place)
        case "hex" if isinstance(value, str) and (digits := _HEX.fullmatch(value)):
            return f"0x{digits[1].lower():0>16}"
        case "hex" if type(value) is int and 0 <= value < 2**64:
            return f"0x{value:016x}"
        case "time" if isinstance(value, str) and (moment := nanoseconds(value)) is not None:
            return moment
        case "bytes" if isinstance(value, bytes):
            return value
        case "truth" if isinstance(value, bool):
            return value
    raise error(f"{column.name} is {_family_text(column)}{_advice(column, value)}")


def _named_number(column: Column, spoken: str) -> tuple[str, int] | None:
    """Returns the word that was meant, and its number in a column of numbers; None if the column
    has no such word.
    """
    for word, number in numbers_by_word(column).items():
        if re.sub(r"[\s_-]+", "-", word) == re.sub(r"[\s_-]+", "-", spoken.strip().lower()):
            return word, number
    return None


def _family_text(column: Column) -> str:
    match family(column):
        case "number":
            return "a number"
        case "text":
            return "text"
        case "hex":
            return "0x and up to 16 hexadecimal digits, as text"
        case "time":
            return "a moment"
        case "bytes":
            return "bytes"
        case "list":
            return "a list of numbers" if column.kind == "numbers" else "a list of words"
        case "truth":
            return "true or false"
        case "records":
            return (
                "a list of records, of which a filter can ask whether there is one: is null, is "
                "not null"
            )


def _advice(column: Column, value: int | str | bytes | bool) -> str:
    """Returns advice on what to write instead of a value of another kind."""
    kind = family(column)
    if kind == "number" or column.kind == "numbers":
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            return f": write {clip(value, _SHOWN)}, without quotes"
        if isinstance(value, str) and _HEX.fullmatch(value):
            return f": write {int(value, 16)}, without quotes"
        if named := named_numbers(column):
            return f": {_listed(tuple(named))}"
        return f"; names are in {_NAMES_OF[column.name]}" if column.name in _NAMES_OF else ""
    if kind == "time":
        return ": write UTC, as in '2024-04-06 05:34:37.411', or use time_ns"
    if kind == "bytes":
        return ": write hexadecimal digits, as in x'00ff'; key is its text"
    if kind == "text" and type(value) is int and column.name in _NUMBERS_OF:
        return f"; numbers are in {_NUMBERS_OF[column.name]}"
    return ": put it in single quotes" if kind in ("text", "list") and type(value) is int else ""


def _word(column: Column, word: str, position: TextPosition) -> str:
    """Returns a word in the spelling of the column: it may be written without ``dcp_``, in
    capitals, or with other dashes.

    Raises PlacedError for a word that the column can never have.
    """
    shown_word = clip(escape(word), _SHOWN)
    if _is_of_messages(column) and column.name in _ADDRESSES and not re.search(r":\d+$", word):
        raise position.error(
            f"{column.name} has a port, as in '10.0.0.9:50312'; for any port write "
            f"{column.name} like '{shown_word}:%'"
        )
    words = (
        Vocabulary(column.words)
        if column.words
        else vocabulary(column.name)
        if _is_of_messages(column)
        else None
    )
    if words is None or word in words:
        return word
    lower = word.lower()
    for name in (
        lower,
        lower.replace("-", "_"),
        f"dcp_{lower}",
        f"dcp_{lower.replace('-', '_')}",
        lower.replace("_", "-"),
    ):
        if name in words:
            return name
    side = {"consumer": "client", "producer": "server"}.get(lower)
    close = f"; did you mean {side}?" if side and side in words else did_you_mean(word, words.words)
    raise position.error(
        f"{column.name} is never '{shown_word}'{close or '; it is ' + _listed(words.words)}"
    )


def _listed(words: tuple[str, ...]) -> str:
    most = 12
    return f"{', '.join(words[:most])}{', …' if len(words) > most else ''}"


def _numeric_time(name: ColumnName) -> ColumnName:
    """Returns the column with nanoseconds for a column of times, because that one is only exact to
    microseconds.
    """
    if name.column.kind != "time":
        return name
    exact = f"{name.column.name}_ns"
    return ColumnName(
        BY_NAME[exact] if _is_of_messages(name.column) else Column(exact, "i64", name.column.doc),
        name.place,
    )


def _is_of_messages(column: Column) -> bool:
    return BY_NAME.get(column.name) is column


def nanoseconds(text: str) -> int | None:
    """Returns a time in ISO 8601 as nanoseconds since 1970, in UTC unless it says otherwise; None
    for other texts.
    """
    matched = _TIME.fullmatch(text.strip())
    if matched is None:
        return None
    year, month, day, hour, minute, second = (int(digits or 0) for digits in matched.groups()[:6])
    fraction, zone = int((matched[7] or "0").ljust(9, "0")), matched[8] or "Z"
    try:
        date(year, month, day)
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    if zone.upper() != "Z":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if hours > 23 or minutes > 59:
            return None
        seconds -= (1 if zone[0] == "+" else -1) * (hours * 3600 + minutes * 60)
    return seconds * 1_000_000_000 + fraction
