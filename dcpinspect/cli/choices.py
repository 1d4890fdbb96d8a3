"""Groups of options. A group is declared as a dataclass is, typer sees its fields, and the command
gets one object.

``def read(context, captures: Captures, conditions: Conditions, …)``. A field of a group may be a
group, too. An option that a command declares by itself stands in place of one of its groups with
the same name, which gets its value.

``words`` says how each option of a group is spelled, what stands for its value, and its help. The
field of ``--save-to DIR`` is ``save_to``; where it has another name, that comes first. What else
typer takes, such as bounds, stands with the type: ``Annotated[int, {"min": 1}]``. An option that belongs
to one command alone is a parameter of it, and described in the same way at the end of its
docstring, below ``Options:``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from dcpinspect.text import entries

Parameters = dict[str, inspect.Parameter]


@dataclass_transform(kw_only_default=True)
class Choices:
    """The base of all groups. No dataclass: making one of thirty fields takes longer than all that
    typer does with them.
    """

    title: ClassVar[str] = "Options"
    """The heading of these options in ``--help``."""
    words: ClassVar[str] = ""
    """Spelling and help of each option; an entry goes on in lines that are indented further."""
    option_types: ClassVar[dict[str, Any]] = {}
    """The type of each field, with what typer needs."""

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        inherited, spelled = cls.option_types, _spelled(cls.__dict__.get("words", ""))
        cls.option_types = {
            name: inherited.get(name) or _with_words(kind, spelled.pop(name.rstrip("_"), None))
            for name, kind in hints.items()
            if name not in Choices.__annotations__
        }
        assert not spelled, f"{cls.__name__} has no field for {', '.join(spelled)}"

    def __init__(self, **values: Any) -> None:
        """``values``: those of fields, where they are not the defaults."""
        for name in self.option_types:
            setattr(self, name, values.get(name, getattr(type(self), name, None)))

    @classmethod
    def parameters(cls) -> Parameters:
        """Returns the options, by name, in order."""
        parameters: Parameters = {}
        for name, kind in cls.option_types.items():
            if is_group(kind):
                parameters |= kind.parameters()
            else:
                default = getattr(cls, name, inspect.Parameter.empty)
                parameters[name] = inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
                )
        return parameters

    @classmethod
    def titles(cls) -> dict[str, str]:
        """Returns the heading of each option."""
        titles: dict[str, str] = {}
        for name, kind in cls.option_types.items():
            titles |= kind.titles() if is_group(kind) else {name: cls.title}
        return titles

    @classmethod
    def from_options(cls, values: dict[str, Any]) -> Self:
        """Returns the group with its part of the values of all options."""
        groups = {
            name: kind.from_options(values)
            for name, kind in cls.option_types.items()
            if is_group(kind)
        }
        return cls(**groups, **{name: values[name] for name in cls.option_types if name in values})


def as_option(spelling: str, text: str, **more: Any) -> Any:
    """Returns an option of typer, spelled as in ``--write -w FILE``, or an argument, as in ``OUT``.
    ``text``: its help.
    """
    words = spelling.split()
    names = [f" {word}" if word.startswith("/") else word for word in words if word[0] in "-/"]
    metavar = " ".join(word for word in words if word[0] not in "-/")
    if not names:
        return typer.Argument(metavar=metavar, help=text, **more)
    return typer.Option(*names, metavar=metavar or None, help=text, **more)


def _spelled(text: str) -> dict[str, tuple[str, str]]:
    """Returns the spelling and the help of each option that ``text`` describes, by its field."""
    spelled = {}
    for head, help_text in entries(text):
        name, _, spelling = head.partition(" ")
        if name.startswith("-"):
            longest = max(re.findall(r"(?<!/)--([a-z-]+)", head), key=len)
            name, spelling = longest.replace("-", "_"), head
        spelled[name] = spelling, help_text
    return spelled


def _with_words(kind: Any, words: tuple[str, str] | None) -> Any:
    """Returns a type with the option that these words describe; without words, as it is."""
    if words is None:
        return kind
    bare, more = get_args(kind) if get_origin(kind) is Annotated else (kind, {})
    described: Any = Annotated
    return described[bare, as_option(*words, **more)]


def is_group(kind: Any) -> bool:
    """Whether a type is a group of options."""
    return isinstance(kind, type) and issubclass(kind, Choices)


def flat(command: Callable[..., int]) -> tuple[Callable[..., int], dict[str, str]]:
    """Returns the function that typer gets in place of a command, and the heading of each option
    that belongs to a group.
    """
    signature = inspect.signature(command, eval_str=True)
    groups = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if is_group(parameter.annotation)
    }
    about, _, words = (inspect.getdoc(command) or "").partition("\n\nOptions:\n")
    spelled = _spelled(words)
    parameters: Parameters = {}
    titles: dict[str, str] = {}
    for parameter in signature.parameters.values():
        if parameter.name not in groups:
            kind = _with_words(parameter.annotation, spelled.pop(parameter.name.rstrip("_"), None))
            parameters[parameter.name] = parameter.replace(
                kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind
            )
            continue
        parameters |= {
            name: option
            for name, option in parameter.annotation.parameters().items()
            if name not in signature.parameters
        }
        titles |= {
            name: title
            for name, title in parameter.annotation.titles().items()
            if name not in signature.parameters
        }

    assert not spelled, f"{command.__name__} has no parameter for {', '.join(spelled)}"

    def run(**values: Any) -> int:
        own_values = {name: value for name, value in values.items() if name in signature.parameters}
        return command(
            **own_values, **{name: group.from_options(values) for name, group in groups.items()}
        )

    run.__name__, run.__doc__ = command.__name__, about
    setattr(run, "__signature__", inspect.Signature(list(parameters.values())))  # noqa: B010 - functions do not declare it
    return run, titles
