"""Groups of options."""

from __future__ import annotations

import inspect
from typing import Annotated

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
