"""What numba makes of kernels: object files that only need the C library. ``build`` links them.

Only this module knows numba from the inside, and only a build imports it. docs/kernels.md explains
what happens here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import codegen, registry
from numba.core import types as numba_types
from numba.core.typing import templates
from numba.extending import overload
from numba.np import arrayobj

from dcpinspect.kernels.kernel import HELPERS
from dcpinspect.kernels.library import parse_signature, symbol
from dcpinspect.kernels.structs import Struct, StructRows, Tables

VERSION = f"3 numba {numba.__version__} llvmlite {llvmlite.__version__}"
"""Its first number changes with what is said here to numba and LLVM."""
_OPTIONS: Any = {
    "error_model": "numpy",  # without exceptions, which would be objects of Python
    "_nrt": False,  # nothing here owns memory, so nothing is counted
    # Without wrappers for Python, which refer to numba's libraries by address.
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,  # of expressions of whole arrays and of ``raise``: kernels have neither
}

_registered: set[Callable[..., Any]] = set()


class _Parts(codegen.JITCodeLibrary):
    """What numba translates together, as it is.

    numba would optimise each function, and then whatever calls it together with it, and translate
    both. A kernel needs this once.
    """

    def add_llvm_module(self, module: Any) -> None:
        self._final_module.link_in(module)

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, _: str) -> int:
        return 0

    def module(self) -> Any:
        """Returns one module with all that the functions here call."""
        todo, seen = [self], {self}
        while todo:
            for library in todo.pop()._linking_libraries:
                if library not in seen:
                    seen.add(library)
                    todo.append(library)
                    self._final_module.link_in(library._final_module, preserve=True)
        return self._final_module


class _Codegen(codegen.JITCPUCodegen):
    """Makes ``_Parts``, which nothing here runs."""

    _library_class = _Parts

    def set_env(self, *_: Any) -> None:
        pass


def object_of(function: Callable[..., Any], signature: str) -> bytes:
    """Returns an object file with a kernel, its ``symbol`` alone seen from outside."""
    library, name = _compiled(function, signature)
    module = library.module()
    for value in (*module.functions, *module.global_variables):
        if value.name == name:
            value.name = symbol(function)
        elif not value.is_declaration:
            value.linkage = "private"  # their names, which numba counts, are not in the file
    passes, builder = library.codegen._module_pass_manager()
    passes.run(module, builder)
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
    # For any processor of this kind. Measured: code for x86-64-v3, or for the very processor, is no
    # faster: kernels load bytes, compare and branch.
    machine = target.create_target_machine(
        cpu="generic", features="", opt=3, reloc="pic", codemodel="default"
    )
    code: bytes = machine.emit_object(module)
    return code


def _compiled(function: Callable[..., Any], signature: str) -> tuple[Any, str]:
    """Returns numba's library with the entry, and the entry's name in it."""
    config: Any = numba.config  # numba fills this module at run time
    config.CPU_NAME, config.CPU_FEATURES = "generic", ""
    context = registry.cpu_target.target_context
    if not isinstance(context.codegen(), _Codegen):
        context._internal_codegen = _Codegen("kernels")  # type: ignore[no-untyped-call] # numba has types for some
    for helper, replacement in HELPERS.items():
        if helper not in _registered:
            _registered.add(helper)
            options: Any = {**_OPTIONS, "forceinline": True} if replacement is helper else _OPTIONS
            overload(helper, jit_options=options, strict=False)(_always(replacement or helper))
    result, parameters = parse_signature(signature, function.__globals__)
    compiler: Any = numba  # its annotations leave out what its own extensions use
    types: Any = numba_types
    arguments, word_index = [], 0
    structs: dict[str, Any] = {}
    for parameter in parameters:
        shape = "".join(
            f"words[{word_index + 1 + dimension}], " for dimension in range(parameter.dimensions)
        )
        if parameter.tables is not None:
            name = parameter.tables.__name__
            structs[name] = _tables_of(parameter.tables)  # type: ignore[arg-type] # mypy takes no class for hashable
            arguments.append(f"{name}(words[{word_index}])")
            word_index += 1
            continue
        argument = (
            f"words[{word_index}] != 0" if parameter.type == "boolean" else f"words[{word_index}]"
        )
        name = f"{parameter.type}_{parameter.dimensions}"
        if shape:
            structs[name] = _array_of(parameter.type, parameter.dimensions)
        arguments.append(f"{name}(words[{word_index}], ({shape}))" if shape else argument)
        word_index += 1 + parameter.dimensions
    call = f"kernel({', '.join(arguments)})"
    names = {
        "kernel": compiler.njit(**_OPTIONS)(function),
        **structs,
    }
    text = f"    {call}\n    return 0\n" if result == "void" else f"    return {call}\n"
    exec(f"def entry(words, addresses):\n{text}", names)  # noqa: S102 - made of our own source's signature
    takes = types.int64(types.CPointer(types.int64), types.CPointer(types.voidptr))
    entry = compiler.njit(takes, **_OPTIONS)(names["entry"])
    (compiled,) = entry.overloads.values()
    return compiled.library, compiled.fndesc.llvm_func_name


@functools.cache
def _tables_of(tables: type[Tables]) -> Any:
    """Returns a function for numba that makes a kernel's view of ``tables`` from the address of its
    words.

    The view is a pointer; an attribute of it is an array of records that owns nothing, or one
    record.
    """
    extending: Any = numba.extending
    types: Any = numba.types
    bases: Any = templates
    members = {
        name: (member_index, _type_of(kind, numba.from_dtype, types))
        for member_index, (name, kind) in enumerate(tables.members().items())
    }
    kind: Any = type(tables.__name__, (types.Type,), {})
    of_tables = kind(f"{tables.__module__}.{tables.__qualname__}")
    extending.register_model(kind)(extending.models.OpaqueModel)

    def resolve(_: Any, view: Any, name: str) -> Any:
        return members[name][1] if view == of_tables and name in members else None

    extending.infer_getattr(
        type("Members", (bases.AttributeTemplate,), {"key": kind, "generic_resolve": resolve})
    )

    def member(context: Any, builder: Any, _: Any, value: Any, name: str) -> Any:
        member_index, member_type = members[name]
        integer = ir.IntType(64)
        words = builder.bitcast(value, integer.as_pointer())

        def word(at: int) -> Any:
            loaded = builder.load(builder.gep(words, [ir.Constant(integer, at)], inbounds=True))
            # No table moves while a kernel runs: without this each access would load the address
            # again.
            loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
            return loaded

        if isinstance(member_type, types.Integer):
            return word(2 * member_index)
        if not isinstance(member_type, types.Array):
            return builder.inttoptr(word(2 * member_index), context.get_value_type(member_type))
        return _array(
            context, builder, member_type, word(2 * member_index), [word(2 * member_index + 1)]
        )

    extending.lower_getattr_generic(kind)(member)

    def of_address(_: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return of_tables(address), code

    return extending.intrinsic(of_address)


def _array_of(name: str, dimensions: int) -> Any:
    """Returns a function for numba that makes an array from its address and its shape."""
    kind: Any = numba.types.Array(numba.from_dtype(np.dtype(name)), dimensions, "C")

    def of_address(_: Any, address: Any, shape: Any) -> Any:
        def code(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            return _array(
                context,
                builder,
                kind,
                arguments[0],
                [builder.extract_value(arguments[1], dimension) for dimension in range(dimensions)],
            )

        return kind(address, shape), code

    return numba.extending.intrinsic(of_address)


def _array(context: Any, builder: Any, kind: Any, address: Any, shape: Sequence[Any]) -> Any:
    """Appends the instructions that make an array, which owns nothing, from address and shape."""
    arrays: Any = arrayobj
    array = arrays.make_array(kind)(context, builder)
    size = ir.Constant(ir.IntType(64), context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(length, strides[0]))
    data = builder.inttoptr(address, array.data.type)
    arrays.populate_array(
        array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None
    )
    return array._getvalue()


def _type_of(kind: Any, from_dtype: Any, types: Any) -> Any:
    """Returns numba's type of a member of tables."""
    if kind is int:
        return types.int64
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return types.Array(types.int64, 1, "C")
    record = from_dtype(kind.dtype)
    return types.Array(record, 1, "C") if issubclass(kind, StructRows) else record


def _always(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function for numba's ``overload``, which wants a function that, given the types,
    returns the implementation.
    """
    return lambda *_: function
