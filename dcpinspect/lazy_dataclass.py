"""Data classes whose ``__init__`` is written when their first record is made.

``dataclasses`` writes six functions for each class when its module is imported, and Python compiles
them: 0.5 ms a class. A command loads a hundred classes, compares and prints the records of few, and
makes none of most. For the checker of types these are its data classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(*, slots, frozen=False):
        """Does what ``dataclasses.dataclass`` does with these two, for classes that inherit no
        fields. ``slots`` is true.
        """
        assert slots
        return lambda original: _made(original, frozen)

    def _made(original, frozen):
        space = dict(vars(original))
        names = [
            name
            for name, kind in original.__annotations__.items()
            if not kind.startswith("ClassVar")
        ]
        defaults = {name: space.pop(name) for name in names if name in space}
        for name in ("__dict__", "__weakref__"):
            space.pop(name, None)
        fields = {
            name: default
            for name, default in defaults.items()
            if isinstance(default, dataclasses.Field)
        }
        if space.get("__hash__") is None:  # so Python has it where there is an __eq__
            space["__hash__"] = _hash(names, fields) if frozen else None
        space = {
            "__qualname__": original.__qualname__,
            "__eq__": _eq(names, fields),
            "__repr__": _repr(names, fields),
            **(_frozen(names) if frozen else {}),
            **space,
            "__slots__": tuple(names),
            "__match_args__": tuple(
                name for name in names if name not in fields or fields[name].kw_only is not True
            ),
            "__dataclass_fields__": _Asked(original, "__dataclass_fields__"),
            "__dataclass_params__": _Asked(original, "__dataclass_params__"),
        }
        if "__init__" not in space:

            def first(self, *values, **named):
                made.__init__ = _init(names, defaults, frozen)
                made.__init__(self, *values, **named)

            space["__init__"] = first
        made = type(original)(original.__name__, original.__bases__, space)
        return made

    def _init(names, defaults, frozen):
        scope = {"__set": object.__setattr__, "__absent": object()}
        parameters = ["self"]
        by_name = []
        lines = []
        for name in names:
            parameter, value, default = name, name, defaults.get(name, dataclasses.MISSING)
            is_field = isinstance(default, dataclasses.Field)
            if is_field and default.default_factory is not dataclasses.MISSING:
                scope[f"__{name}"] = default.default_factory
                parameter = f"{name}=__absent"
                value = f"__{name}() if {name} is __absent else {name}"
            elif (plain := default.default if is_field else default) is not dataclasses.MISSING:
                scope[f"__{name}"] = plain
                parameter = f"{name}=__{name}"
            (by_name if is_field and default.kw_only is True else parameters).append(parameter)
            lines.append(
                f" __set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}"
            )
        if by_name:
            parameters += ["*", *by_name]
        exec("\n".join([f"def __init__({', '.join(parameters)}):", *(lines or [" pass"])]), scope)  # noqa: S102 - names of our own fields
        return scope["__init__"]

    def _compared(names, fields):
        compared = [name for name in names if name not in fields or fields[name].compare]
        if len(compared) > 1:
            return attrgetter(*compared)
        return lambda record: [getattr(record, name) for name in compared]

    def _eq(names, fields):
        values = _compared(names, fields)
        return lambda self, other: (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    def _hash(names, fields):
        values = _compared(names, fields)
        return lambda self: hash(tuple(values(self)))

    def _repr(names, fields):
        represented = [name for name in names if name not in fields or fields[name].repr]
        return lambda self: (
            f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in represented)})"
        )

    def _frozen(names):
        def refuse(_, name, *_value):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

        def set_state(self, values):
            for name, value in zip(names, values, strict=True):
                object.__setattr__(self, name, value)

        get_state = lambda self: [getattr(self, name) for name in names]  # noqa: E731 - as short as its fellows
        return {
            "__setattr__": refuse,
            "__delattr__": refuse,
            "__getstate__": get_state,
            "__setstate__": set_state,
        }

    class _Asked:
        """What ``dataclasses.replace`` and its like ask a class for: made by ``dataclasses``."""

        def __init__(self, original, name):
            self.original, self.name = original, name

        def __get__(self, record, owner):
            if self.name not in vars(self.original):
                dataclasses.dataclass(init=False, repr=False, eq=False)(self.original)
            return vars(self.original)[self.name]
