"""Kernels compiled by numba: when a wheel is built, and at first use of a kernel that no wheel brought.

Only this module knows numba from the inside. It makes object files that only need the C library; ``machine_code`` links them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dcpinspect.machine_code import TYPES, Code, Source, keep, link, machine, processor, sealed, shipped_folder, tell
from dcpinspect.structs import Rows, Struct, Tables

_NO_OBJECTS = """
target triple = "{triple}"
target datalayout = "{layout}"
define void @NRT_MemInfo_call_dtor(ptr %object) {{
    ret void
}}
"""
"""The one function of numba's run time that kernels refer to. It is never called: their arrays own nothing."""

_registered: set[Callable[..., Any]] = set()


def make(source: Source) -> Code:
    """Compiles for this processor, which takes seconds and is announced once, and keeps the code for later processes.

    Raises ``ImportError`` if numba is missing or does not work.
    """
    _numba_config()
    tell("compiling", "compiling for large captures, once for this version (up to a minute)")
    library, name = _compiled(source)
    code = _object(library, name, *processor())
    try:
        linked = link(source, code)
    except RuntimeError:  # numba's own way of loading works wherever numba does
        return Code(source, library.get_pointer_to_function(name), library)
    keep(source, code)
    return linked


def ship(source: Source, folder: Path) -> None:
    """Compiles for every processor of this platform, into a folder as a wheel has it; afterwards this process compiles for no other.

    Raises ``ImportError`` as ``make``.
    """
    config = _numba_config()
    cpu, features = config.CPU_NAME, config.CPU_FEATURES = "generic", ""
    path = folder / shipped_folder() / source.file_name()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sealed(path, _object(*_compiled(source), cpu, features)))


def _numba_config() -> Any:
    import numba  # deferred: 0.5 s, and only ever needed once

    config: Any = numba.config  # numba fills this module at run time
    if config.DISABLE_JIT:
        msg = "NUMBA_DISABLE_JIT is set"
        raise ModuleNotFoundError(msg)
    return config


def _compiled(source: Source) -> tuple[Any, str]:
    """Returns numba's library with the entry, and the entry's name in it."""
    import numba  # deferred, as all of it
    from numba.core import types as numba_types
    from numba.extending import overload

    for function, other in source.helpers.items():
        if function not in _registered:
            _registered.add(function)
            options: Any = {"forceinline": True} if other is function else {}
            overload(function, jit_options=options, strict=False)(_always(other or function))
    compiler: Any = numba  # its annotations leave out what its own extensions use
    types: Any = numba_types
    arguments, at = [], 0
    structs: dict[str, Any] = {}
    for parameter in source.parameters:
        shape = "".join(f"words[{at + 1 + place}], " for place in range(parameter.dimensions))
        if parameter.tables is not None:
            name = parameter.tables.__name__
            structs[name] = _tables_of(parameter.tables)  # type: ignore[arg-type] # mypy takes no class for hashable
            arguments.append(f"{name}(words[{at}])")
            at += 1
            continue
        whole = f"words[{at}] != 0" if parameter.type == "boolean" else f"words[{at}]"
        arguments.append(f"carray(addresses[{at}], ({shape}), {parameter.type})" if shape else whole)
        at += 1 + parameter.dimensions
    call = f"kernel({', '.join(arguments)})"
    names = {
        # Inlined before types are inferred: one compilation, not two, and the kernel sees arrays that own nothing.
        "kernel": compiler.njit(inline="always")(source.function),
        "carray": compiler.carray,
        **{name: np.dtype(name) for name in set(TYPES.values())},
        **structs,
    }
    text = f"    {call}\n    return 0\n" if source.result == "void" else f"    return {call}\n"
    exec(f"def entry(words, addresses):\n{text}", names)  # noqa: S102 - made of our own source's signature
    signature = types.int64(types.CPointer(types.int64), types.CPointer(types.voidptr))
    # Without wrappers for Python, which refer to numba's libraries by address.
    entry = compiler.njit(signature, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(names["entry"])
    (result,) = entry.overloads.values()
    return result.library, result.fndesc.llvm_func_name


@functools.cache
def _tables_of(tables: type[Tables]) -> Any:
    """Returns a function for numba that makes a kernel's view of ``tables`` from the address of its words.

    The view is a pointer; an attribute of it is an array of records that owns nothing, or one record.
    """
    import numba  # deferred, as all of it
    from llvmlite import ir
    from numba.core.typing import templates
    from numba.np import arrayobj

    extending: Any = numba.extending
    types: Any = numba.types
    bases: Any = templates
    arrays: Any = arrayobj

    members = {name: (place, _type_of(kind, numba.from_dtype, types)) for place, (name, kind) in enumerate(tables.members().items())}
    kind: Any = type(tables.__name__, (types.Type,), {})
    of_tables = kind(f"{tables.__module__}.{tables.__qualname__}")
    extending.register_model(kind)(extending.models.OpaqueModel)

    def resolve(_: Any, view: Any, name: str) -> Any:
        return members[name][1] if view == of_tables and name in members else None

    extending.infer_getattr(type("Members", (bases.AttributeTemplate,), {"key": kind, "generic_resolve": resolve}))

    def member(context: Any, builder: Any, _: Any, value: Any, name: str) -> Any:
        place, of = members[name]
        integer = ir.IntType(64)
        words = builder.bitcast(value, integer.as_pointer())

        def word(at: int) -> Any:
            loaded = builder.load(builder.gep(words, [ir.Constant(integer, at)], inbounds=True))
            # No table moves while a kernel runs: without this each access would load the address again.
            loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
            return loaded

        if isinstance(of, types.Integer):
            return word(2 * place)
        if not isinstance(of, types.Array):
            return builder.inttoptr(word(2 * place), context.get_value_type(of))
        array = arrays.make_array(of)(context, builder)
        size = ir.Constant(integer, context.get_abi_sizeof(context.get_data_type(of.dtype)))
        arrays.populate_array(
            array,
            data=builder.inttoptr(word(2 * place), array.data.type),
            shape=[word(2 * place + 1)],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    extending.lower_getattr_generic(kind)(member)

    def of_address(_: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return of_tables(address), code

    return extending.intrinsic(of_address)


def _type_of(kind: Any, from_dtype: Any, types: Any) -> Any:
    """Returns numba's type of a member of tables."""
    if kind is int:
        return types.int64
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return types.Array(types.int64, 1, "C")
    record = from_dtype(kind.dtype)
    return types.Array(record, 1, "C") if issubclass(kind, Rows) else record


def _always(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function for numba's ``overload``, which wants a function that, given the types, returns the implementation."""
    return lambda *_: function


def _object(library: Any, name: str, cpu: str, features: str) -> bytes:
    """Returns an object file that needs nothing but the C library."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(library.get_llvm_str())
    module.get_function(name).name = "kernel"
    module.link_in(llvm.parse_assembly(_NO_OBJECTS.format(triple=module.triple, layout=module.data_layout)))
    code: bytes = machine(cpu, features).emit_object(module)
    return code
