"""Records of integers in tables: declared once, seen by NumPy, by interpreted kernels, by compiled
kernels and by mypy.

A ``Struct`` declares its fields as a dataclass does::

    class Gap(Struct[T]):
        stream: T = number("Stream that it is in.", of="streams")
        after: T = number("Last seqno before it, biased.")
        begins: MessageRow[T] = nested(MessageRow, "Message that gave ``after``.")

    class Gaps(Gap[IntArray], StructRows[Gap]):
        \"\"\"The gaps of a reading.\"\"\"

``Gap`` is one record, whose fields are integers: ``gaps[7].begins.row``. ``Gaps`` is a table, whose
fields are columns: ``gaps.begins.row``. A kernel takes a ``Tables``, which names all tables that it
works on, and gets records from them: a record is a view, so that ``gap.after = 5`` writes into the
table. Interpreted, a record is a ctypes structure; compiled, it is a pointer.

Kernels hand records to each other and never return one: compiled, that would be a copy.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, get_type_hints, overload

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray, grown, plain
from dcpinspect.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=int)
    R = TypeVar("R")
else:
    from typing import TypeVar

    T = TypeVar("T")
    R = TypeVar("R")


@dataclass(slots=True)
class Field:
    """What a struct has at one place. ``number`` and its like declare it."""

    meaning: str
    struct: type[Struct[Any]] | None = None
    is_pair: bool = False
    reset: int = 0
    of: str = ""
    """Name of the table of which the field holds row numbers; empty for none."""
    least: int = -1
    """The least number that the field may hold, if it holds row numbers."""
    bits: int = 64
    name: str = ""

    @property
    def dtype(self) -> Any:
        """The field's type, as NumPy takes it in a list of fields."""
        if self.is_pair:
            return (self.name, "<i8", (2,))
        return (self.name, f"<i{self.bits // 8}" if self.struct is None else self.struct.dtype)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, table: Any, owner: type) -> Any:
        if table is None:
            return self
        column = table.array[self.name]
        if self.is_pair:
            return FieldPair(column)
        return column if self.struct is None else self.struct._columns(column)

    def __set__(self, table: Any, values: Any) -> None:
        table.array[self.name] = values.array if isinstance(values, Struct | FieldPair) else values


def number(meaning: str, *, reset: int = 0, of: str = "", least: int = -1, bits: int = 64) -> Any:
    """Declares a signed integer. ``reset``: its value in a new record. ``of``: the table of which
    it is a row number; -1 is then none.

    ``least``: -1, or less if numbers below 0 say something else. ``bits``: 8, 16 or 32 in tables
    that may have millions of rows; put such fields behind the others, since each field begins at a
    multiple of its size.
    """
    return Field(meaning, reset=reset, of=of, least=least, bits=bits)


def by_direction(meaning: str, *, reset: int = 0, of: str = "") -> Any:
    """Declares two integers: of direction 0, from the client to the server, and of direction 1."""
    return Field(meaning, is_pair=True, reset=reset, of=of)


def nested(struct: type[Struct[Any]], meaning: str) -> Any:
    """Declares another struct inside this one."""
    return Field(meaning, struct=struct)


class FieldPair(Generic[T]):
    """A field of two integers, one for each direction; in a table, two columns."""

    def __init__(self, array: IntArray) -> None:
        self.array = array
        """Shape (rows, 2)."""

    def __getitem__(self, direction: int) -> T:
        return self.array[..., direction]  # type: ignore[return-value] # T is an array here: of one record ctypes has a type of its own

    def __setitem__(self, direction: int, value: T) -> None:
        self.array[..., direction] = value  # type: ignore[call-overload] # the same

    def in_direction(self, direction: IntArray) -> IntArray:
        """Returns for each record the integer of its direction."""
        return np.take_along_axis(self.array, direction.reshape(-1, 1), axis=1)[:, 0]


class Struct(Generic[T]):
    """A record of integers; if T is arrays, the columns of many records."""

    if not TYPE_CHECKING:
        __slots__ = ()  # mypy would take the fields for attributes that have no slot

    dtype: ClassVar[np.dtype[np.void]]
    fields: ClassVar[Mapping[str, Field]]
    declared: ClassVar[type[Struct[Any]]]
    """The class that declares the fields: this class, or for a table the class of its records."""
    array: npt.NDArray[np.void]

    def __init_subclass__(cls) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        if declared:
            cls.fields, cls.declared = declared, cls
            cls.dtype = np.dtype([field.dtype for field in declared.values()], align=True)

    @classmethod
    def _columns(cls, array: npt.NDArray[np.void]) -> Self:
        columns = object.__new__(cls)
        columns.array = array
        return columns

    @classmethod
    def ctype(cls) -> type[ctypes.Structure]:
        """Returns the type of the record for interpreted kernels."""
        return _ctype(cls.declared)  # type: ignore[arg-type] # mypy takes no class for hashable

    @classmethod
    def single(cls) -> Self:
        """Returns a new record with memory of its own, reset."""
        record: Any = cls.ctype()()
        cls.resetter()(record)
        return record  # type: ignore[no-any-return] # a structure with the same fields

    @classmethod
    def as_bytes(cls, record: Self) -> bytes:
        """Returns a record made by ``single`` as bytes, to travel."""
        return bytes(record)  # type: ignore[call-overload, no-any-return] # it is a structure

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Returns a record with memory of its own, from what ``as_bytes`` returned. Raises
        ValueError for another number of bytes.
        """
        if len(data) != cls.dtype.itemsize:
            raise ValueError(f"{len(data)} bytes are no {cls.__name__}")
        record: Any = cls.ctype().from_buffer_copy(data)
        return record  # type: ignore[no-any-return] # as above

    @classmethod
    def resets(cls, prefix: str = "") -> dict[str, int]:
        """Returns the fields of a new record that are not 0, by their names with dots."""
        values: dict[str, int] = {}
        for field in cls.fields.values():
            if field.struct is not None:
                values |= field.struct.resets(f"{prefix}{field.name}.")
            elif field.reset:
                values |= dict.fromkeys(
                    [f"{prefix}{field.name}[{direction}]" for direction in (0, 1)]
                    if field.is_pair
                    else [prefix + field.name],
                    field.reset,
                )
        return values

    @classmethod
    def resetter(cls) -> Callable[[Self], None]:
        """Returns a function that makes a record of zeros a new one; as a ``kernel_function`` it is
        for kernels, too.
        """
        return _resetter(cls.declared)  # type: ignore[arg-type] # mypy takes no class for hashable


@functools.cache
def _resetter(struct: type[Struct[Any]]) -> Callable[[Any], None]:
    lines = [f"    record.{name} = {value}" for name, value in struct.resets().items()] or [
        "    pass"
    ]
    scope: dict[str, Any] = {}
    exec("\n".join(["def reset(record):", *lines]), scope)  # noqa: S102 - made of the declarations in this package
    reset: Callable[[Any], None] = scope["reset"]
    return reset


@functools.cache
def _ctype(struct: type[Struct[Any]]) -> type[ctypes.Structure]:
    integers: dict[int, Any] = {
        8: ctypes.c_int8,
        16: ctypes.c_int16,
        32: ctypes.c_int32,
        64: ctypes.c_int64,
    }
    fields = [
        (
            name,
            field.struct.ctype()
            if field.struct
            else ctypes.c_int64 * 2
            if field.is_pair
            else integers[field.bits],
        )
        for name, field in struct.fields.items()
    ]
    return type(struct.__name__, (ctypes.Structure,), {"_fields_": fields, "struct": struct})


@functools.cache
def _reset_row(struct: Any) -> npt.NDArray[np.void]:
    table = struct.zeros(1)
    struct.resetter()(table[0])
    row: npt.NDArray[np.void] = table.array
    return row


class StructRows(Generic[R]):
    """A table of records. A class that also inherits from the struct has its fields as columns.

    Tables of which very many are kept have no attributes beside these two: their class, and that of
    their records, have empty slots.
    """

    __slots__ = ("_records", "array")

    dtype: ClassVar[np.dtype[np.void]]
    fields: ClassVar[Mapping[str, Field]]

    def __init__(self, array: npt.NDArray[np.void]) -> None:
        self.array = array
        self._records: Any = None

    @classmethod
    def zeros(cls, count: int) -> Self:
        """Returns rows of zeros; rows that nobody has written yet take no memory."""
        return cls(np.zeros(count, cls.dtype))

    @classmethod
    def mapped(cls, count: int) -> Self:
        """Returns rows of zeros in memory that was never used: where NumPy reuses freed memory, it
        writes the zeros.
        """
        return cls(np.frombuffer(mmap.mmap(-1, count * cls.dtype.itemsize), cls.dtype))

    @classmethod
    def reset(cls, count: int) -> Self:
        """Returns rows with the values of new records."""
        struct: Any = cls
        return cls(np.repeat(plain(_reset_row(struct)), count).view(cls.dtype))

    def grown(self, rows: int) -> Self:
        """Returns the rows with zeros behind them: ``rows`` in all, or twice as many as now."""
        return type(self)(grown(self.array, rows))

    @classmethod
    def joined(cls, tables: Sequence[Self]) -> Self:
        """Returns one table with the rows of all, one table behind the other."""
        rows = np.empty(sum(map(len, tables)), cls.dtype)
        if tables:  # into one array: a view of another one would keep both
            np.concatenate([plain(table.array) for table in tables], out=plain(rows))
        return cls(rows)

    @classmethod
    def of_integers(cls, integers: IntArray) -> Self:
        """Returns the table from what ``as_integers`` returned. Raises ValueError for another
        number of integers in a row.
        """
        return cls(np.ascontiguousarray(integers, dtype="<i8").view(cls.dtype).reshape(-1))

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, at: int | np.int64) -> R: ...
    @overload
    def __getitem__(self, at: slice | npt.NDArray[Any] | Sequence[int]) -> Self: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, int | np.integer):
            return self.records()[at if at >= 0 else len(self.array) + at]
        return type(self)(plain(self.array)[at].view(self.dtype))

    @overload
    def __setitem__(self, at: int, rows: R) -> None: ...
    @overload
    def __setitem__(self, at: slice | npt.NDArray[Any], rows: Self) -> None: ...
    def __setitem__(self, at: Any, rows: Any) -> None:
        if isinstance(at, int):
            self.records()[at] = rows
        else:
            plain(self.array)[at] = plain(rows.array)

    def __iter__(self) -> Iterator[R]:
        return iter(self.records())

    def records(self) -> Any:
        """Returns the records as interpreted kernels see them: views, unless the table itself is
        part of another one.
        """
        if self._records is None:
            array = np.require(self.array, requirements=("C", "W"))
            struct: Any = type(self)
            self._records = (struct.ctype() * len(array)).from_buffer(array)
        return self._records

    def __reduce__(self) -> Any:
        return type(self), (self.array,)

    def as_integers(self) -> IntArray:
        """Returns the whole table as numbers, of shape (rows, integers of a row)."""
        return (
            np.ascontiguousarray(self.array)
            .view(np.int64)
            .reshape(len(self.array), self.dtype.itemsize // 8)
        )


class Tables:
    """What a kernel works on: a subclass names its tables, single records, arrays of int64 and
    integers by annotations.
    """

    @classmethod
    @functools.cache
    def members(cls) -> Mapping[str, Any]:
        """Returns the type of each member by its name, in order."""
        return {name: kind for name, kind in get_type_hints(cls).items() if _is_member(kind)}

    @classmethod
    def layout(cls) -> str:
        """Returns a text of everything that decides how machine code reads the members."""
        return repr(
            [
                (
                    name,
                    kind.dtype.descr
                    if isinstance(kind, type) and issubclass(kind, Struct)
                    else str(kind),
                )
                for name, kind in cls.members().items()
            ]
        )

    def views(self) -> Any:
        """Returns the members as interpreted kernels see them."""
        return SimpleNamespace(**{name: _view(getattr(self, name)) for name in self.members()})

    def check(self) -> None:
        """Raises ValueError for a row number outside its table: a kernel would write anywhere."""
        rows = {
            name: len(table)
            for name in self.members()
            if isinstance(table := getattr(self, name, None), StructRows)
        }
        for name in rows:
            _check(
                f"{type(self).__name__}.{name}",
                getattr(self, name),
                getattr(self, name).array,
                rows,
            )

    def words(self) -> IntArray:
        """Returns address and length of each member, as compiled kernels take them; an integer
        stands for itself.
        """
        return np.array(
            [word for name in self.members() for word in _words(getattr(self, name))],
            dtype=np.int64,
        )


def _check(
    name: str,
    struct: type[Struct[Any]] | StructRows[Any],
    array: npt.NDArray[np.void],
    rows: Mapping[str, int],
) -> None:
    for field in struct.fields.values():
        column = array[field.name]
        if field.struct is not None:
            _check(name, field.struct, column, rows)
        elif (
            field.of in rows
            and len(column)
            and not field.least <= column.min() <= column.max() < max(1, rows[field.of])
        ):
            raise ValueError(f"{name}: {field.name} is no row of {field.of}")


def _is_member(kind: Any) -> bool:
    return kind is int or kind == IntArray or (isinstance(kind, type) and issubclass(kind, Struct))


def _view(member: Any) -> Any:
    if isinstance(member, StructRows):
        return member.records()
    return member.data if isinstance(member, np.ndarray) else member


def _words(member: Any) -> tuple[int, int]:
    if isinstance(member, ctypes.Structure):
        return ctypes.addressof(member), 1
    if isinstance(member, int):
        return member, 0
    array = member.array if isinstance(member, StructRows) else member
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise TypeError("a kernel takes contiguous arrays that it may write")
    return array.ctypes.data, len(array)
