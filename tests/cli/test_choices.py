"""Groups of options."""

from __future__ import annotations

import inspect
from typing import Annotated, get_args

import pytest
import typer

from dcpinspect.cli.choices import Choices, flat


class Size(Choices):
    title = "Sizes"
    width: int = 3
    height: int = 4


class Look(Choices):
    title = "The look"
    color: Annotated[str, typer.Option("--color")] = "red"
    size: Size = Size()


def command(context: object, look: Look, width: int, name: str = "x") -> int:
    """Says how it looks."""
    del context, name
    return look.size.height * width + look.size.width


def test_typer_sees_each_option_of_a_group() -> None:
    run, titles = flat(command)
    assert list(inspect.signature(run).parameters) == [
        "context",
        "color",
        "height",
        "width",
        "name",
    ]
    assert inspect.signature(run).parameters["height"].default == 4
    assert titles == {"color": "The look", "height": "Sizes"}
    assert (run.__name__, run.__doc__) == ("command", "Says how it looks.")


def test_an_option_of_the_command_stands_in_place_of_one_of_a_group() -> None:
    run, _ = flat(command)
    assert run(context=None, color="blue", height=5, width=7, name="y") == 5 * 7 + 7


def test_a_group_has_its_defaults() -> None:
    look = Look(color="blue")
    assert (look.color, look.size.width, Look().color) == ("blue", 3, "red")


class Words(Choices):
    words = """
    --save-to -s DIR: Where it goes; what is there
        stays.
    times -n --repeat N: How often.
    --fields/--no-fields: With fields.
    """
    save_to: str = "."
    times: Annotated[int, {"min": 1}] = 1
    fields: bool = True


def test_words_spell_the_options_of_a_group_and_say_what_they_are_for() -> None:
    spelled = {name: get_args(kind)[1] for name, kind in Words.option_types.items()}
    # typer takes the first spelling as its default
    names = {name: (info.default, *info.param_decls) for name, info in spelled.items()}
    assert names == {
        "save_to": ("--save-to", "-s"),
        "times": ("-n", "--repeat"),
        "fields": ("--fields/--no-fields",),
    }
    assert spelled["save_to"].help == "Where it goes; what is there stays."
    assert [info.metavar for info in spelled.values()] == ["DIR", "N", None]
    assert spelled["times"].min == 1


def test_words_without_a_field_are_refused() -> None:
    with pytest.raises(AssertionError, match="has no field for depth"):
        type("Deep", (Choices,), {"words": "--depth N: How deep."})
