"""What numba makes of kernels: object files that only need the C library. ``build`` links them.

Only this module knows numba from the inside, and only a build imports it. docs/kernels.md explains what happens here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import types as numba_types
from numba.core.typing import templates
from numba.extending import overload
from numba.np import arrayobj

from dcpinspect.kernels.kernel import HELPERS
from dcpinspect.kernels.library import TYPES, parse_signature, symbol
from dcpinspect.kernels.structs import Rows, Struct, Tables

VERSION = f"1 numba {numba.__version__} llvmlite {llvmlite.__version__}"
"""Its first number changes with what is said here to numba and LLVM."""
_NO_OBJECTS = """
target triple = "{triple}"
target datalayout = "{layout}"
define void @NRT_MemInfo_call_dtor(ptr %object) {{
    ret void
}}
"""
"""The one function of numba's run time that kernels refer to. It is never called: their arrays own nothing."""

_registered: set[Callable[..., Any]] = set()


def object_of(function: Callable[..., Any], signature: str) -> bytes:
    """Returns an object file with a kernel, by its ``symbol``; nothing else in it is seen from outside."""
    config: Any = numba.config  # numba fills this module at run time
    config.CPU_NAME, config.CPU_FEATURES = "generic", ""
    library, name = _compiled(function, signature)
    module = llvm.parse_assembly(library.get_llvm_str())
    module.link_in(llvm.parse_assembly(_NO_OBJECTS.format(triple=module.triple, layout=module.data_layout)))
    for value in (*module.functions, *module.global_variables):
        if value.name == name:
            value.name = symbol(function)
        elif not value.is_declaration:
            value.linkage = "private"  # their names, which numba counts, are not in the file
    return _emitted(module)


def object_with(name: str, text: bytes) -> bytes:
    """Returns an object file with a text of C."""
    module = ir.Module()
    kind = ir.ArrayType(ir.IntType(8), len(text) + 1)
    variable = ir.GlobalVariable(module, kind, name)
    variable.global_constant = True
    variable.initializer = ir.Constant(kind, bytearray(text + b"\0"))
    return _emitted(llvm.parse_assembly(str(module)))


def _emitted(module: Any) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    # For any processor of this kind. Measured: code for x86-64-v3, or for the very processor, is no faster: kernels load bytes, compare
    # and branch.
    machine = target.create_target_machine(cpu="generic", features="", opt=3, reloc="pic", codemodel="default")
    code: bytes = machine.emit_object(module)
    return code


def _compiled(function: Callable[..., Any], signature: str) -> tuple[Any, str]:
    """Returns numba's library with the entry, and the entry's name in it."""
    for helper, other in HELPERS.items():
        if helper not in _registered:
            _registered.add(helper)
            options: Any = {"forceinline": True} if other is helper else {}
            overload(helper, jit_options=options, strict=False)(_always(other or helper))
    result, parameters = parse_signature(signature, function.__globals__)
    compiler: Any = numba  # its annotations leave out what its own extensions use
    types: Any = numba_types
    arguments, at = [], 0
    structs: dict[str, Any] = {}
    for parameter in parameters:
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
        "kernel": compiler.njit(inline="always")(function),
        "carray": compiler.carray,
        **{name: np.dtype(name) for name in set(TYPES.values())},
        **structs,
    }
    text = f"    {call}\n    return 0\n" if result == "void" else f"    return {call}\n"
    exec(f"def entry(words, addresses):\n{text}", names)  # noqa: S102 - made of our own source's signature
    takes = types.int64(types.CPointer(types.int64), types.CPointer(types.voidptr))
    # Without wrappers for Python, which refer to numba's libraries by address.
    entry = compiler.njit(takes, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(names["entry"])
    (compiled,) = entry.overloads.values()
    return compiled.library, compiled.fndesc.llvm_func_name


@functools.cache
def _tables_of(tables: type[Tables]) -> Any:
    """Returns a function for numba that makes a kernel's view of ``tables`` from the address of its words.

    The view is a pointer; an attribute of it is an array of records that owns nothing, or one record.
    """
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
