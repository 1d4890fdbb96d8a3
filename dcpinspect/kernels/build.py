"""Makes the library of machine code: ``python -m dcpinspect.kernels.build``, and the build of a
wheel.

Each kernel becomes an object file by itself. In a source tree these are kept in ``build/kernels``,
so that only kernels that have changed are compiled again. A linker makes one library of them.
"""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from dcpinspect.kernels.kernel import HELPERS, Kernel
from dcpinspect.kernels.library import (
    NAME,
    SOURCES,
    Library,
    digest_of,
    parse_signature,
    symbol,
    warn_once,
)

PACKAGE = Path(__file__).parents[1]
PROCESSES = 4
"""At most so many compile, with 0.3 GB each."""
LINKERS = (["cc"], ["gcc"], ["clang"], [sys.executable, "-m", "ziglang", "cc"])
"""Programs that link, in order: the extra ``build`` brings one where there is no compiler."""
OPTIONS = [
    "-shared",
    "-nostdlib",
    *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []),
]
"""Without a library: ``memcpy`` and its like are the process's own. So any C library will do."""


@functools.cache
def kernels() -> list[Kernel[..., Any]]:
    """All of the package, those first that probably take longest to compile."""
    all_kernels: list[Kernel[..., Any]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if "@kernel(" in path.read_text("utf-8"):
            module = importlib.import_module(
                ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts))
            )
            all_kernels += [
                value
                for value in vars(module).values()
                if isinstance(value, Kernel) and value.function.__module__ == module.__name__
            ]
    return sorted(all_kernels, key=lambda kernel: -len(kernel.function.__code__.co_code))


def build(path: Path, objects: Path) -> None:
    """Writes the library. ``objects``: the folder where object files are kept. Raises OSError if no
    linker works.
    """
    objects.mkdir(parents=True, exist_ok=True)
    all_kernels = kernels()
    with ProcessPoolExecutor(min(PROCESSES, os.cpu_count() or 1)) as pool:
        files = list(pool.map(_made, [objects] * len(all_kernels), range(len(all_kernels))))
    names = sources(all_kernels)
    with tempfile.TemporaryDirectory(dir=objects) as folder:
        link(Path(folder), files, "\n".join([digest_of(names), *names]), path)
    for file in {*objects.glob("*.o")} - {*files}:
        file.unlink()


def link(folder: Path, files: Sequence[Path], text: str, path: Path) -> None:
    """Links object files, and the text of what they were made of, by the first linker that can."""
    from dcpinspect.kernels.compiling import object_with

    made, more = folder / "made.so", folder / "sources.o"
    more.write_bytes(object_with(SOURCES, text.encode()))
    failure = ""
    for linker in LINKERS:
        try:
            subprocess.run(  # noqa: S603
                [*linker, *OPTIONS, "-o", made, *files, more],
                check=True,
                capture_output=True,
                text=True,
            )
            Library(str(made))  # all that it needs is there
            os.replace(made, path)
            return
        except (OSError, subprocess.CalledProcessError) as error:
            failure = " ".join(str(getattr(error, "stderr", None) or error).split())
    raise OSError(f"nothing links, install a C compiler or ziglang ({failure})")


def _made(objects: Path, index: int) -> Path:
    """Returns the object file of the kernel at a place of all; makes it if it is not there."""
    from dcpinspect.kernels.compiling import VERSION, object_of

    # what compiling makes lives as long as this process: looking through it took a sixth of the
    # time
    gc.disable()
    kernel = kernels()[index]
    path = objects / f"{kernel.__name__}-{fingerprint(kernel, VERSION)}.o"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(object_of(kernel.function, kernel.signature))
        os.replace(unfinished, path)
    return path


def fingerprint(kernel: Kernel[..., Any], version: str) -> str:
    """Returns a hash of all that decides what a kernel is compiled to: its name, its code, and
    every constant and function that it uses.

    ``version``: of what compiles it.
    """
    parsed = parse_signature(kernel.signature, kernel.function.__globals__)
    layouts = [parameter.tables.layout() for parameter in parsed[1] if parameter.tables is not None]
    facts = hashlib.sha256(
        repr([symbol(kernel.function), version, sys.version_info, parsed, layouts]).encode()
    )
    seen: set[int] = set()
    for fact in _facts(kernel.function, seen):
        facts.update(len(fact).to_bytes(8, "big") + fact)
    return facts.hexdigest()[:24]


def _facts(function: Any, seen: set[int]) -> Iterator[bytes]:
    function = HELPERS.get(function) or function
    if id(function) in seen:
        return
    seen.add(id(function))
    yield repr(function.__defaults__).encode()
    for code in _codes(function.__code__):
        yield code.co_code
        yield repr(
            [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
        ).encode()
        scopes = [function.__globals__]
        scopes += [
            vars(value)
            for name in code.co_names
            if isinstance(value := scopes[0].get(name), ModuleType)
        ]
        for name in code.co_names:
            yield name.encode()
            for value in (scope[name] for scope in scopes if name in scope):
                if isinstance(value, FunctionType):
                    yield from _facts(value, seen)
                elif isinstance(value, np.ndarray):
                    yield value.dtype.str.encode() + repr(value.shape).encode() + value.tobytes()
                else:
                    yield repr(value.__name__ if isinstance(value, ModuleType) else value).encode()


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def sources(kernels_of_library: Sequence[Kernel[..., Any]]) -> list[str]:
    """Returns the files of the package that kernels are made of: those with a name that a kernel
    refers to, or that such a name is made of, however far away.
    """
    todo = [(kernel.function.__module__, kernel.__name__) for kernel in kernels_of_library]
    seen, files = set(todo), {f"kernels/{path.name}" for path in (PACKAGE / "kernels").glob("*.py")}
    while todo:
        module, name = todo.pop()
        file = PACKAGE.parent.joinpath(*module.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        files.add(file.relative_to(PACKAGE).as_posix())
        for mentioned_name in _names(file, module, name):
            if mentioned_name not in seen:
                seen.add(mentioned_name)
                todo.append(mentioned_name)
    return sorted(files)


def _names(file: Path, module: str, name: str) -> Iterator[tuple[str, str]]:
    """Yields the names, each with its module, that a name of a module is made of."""
    for statement in _parsed(file).body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if name == (alias.asname or alias.name) and str(statement.module).startswith(
                    PACKAGE.name
                ):
                    is_module = PACKAGE.parent.joinpath(
                        *str(statement.module).split("."), f"{alias.name}.py"
                    ).exists()
                    yield (
                        (f"{statement.module}.{alias.name}", "*")
                        if is_module
                        else (str(statement.module), alias.name)
                    )
        elif name == "*" or name in _bound(statement):
            yield from ((module, mentioned_name) for mentioned_name in _mentioned(statement))


@functools.cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())


def _bound(statement: ast.stmt) -> set[str]:
    """Returns the names that a statement of a module gives a value, or may change."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    targets = (
        statement.targets
        if isinstance(statement, ast.Assign)
        else [getattr(statement, "target", statement)]
    )
    return {
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    }


def _mentioned(statement: ast.stmt) -> set[str]:
    """Returns all names in a statement.

    Methods of classes and types of parameters decide nothing of machine code; signatures of kernels
    do.
    """
    syntax_nodes: list[ast.AST] = [statement]
    if isinstance(statement, ast.FunctionDef):
        syntax_nodes = [*statement.body, *statement.decorator_list, *statement.args.defaults]
    elif isinstance(statement, ast.ClassDef):
        syntax_nodes = [
            *statement.bases,
            *(
                syntax_node
                for syntax_node in statement.body
                if not isinstance(syntax_node, ast.FunctionDef)
            ),
        ]
    nodes = [node for syntax_node in syntax_nodes for node in ast.walk(syntax_node)]
    texts = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "(" in node.value
    ]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        *re.findall(r"\w+", " ".join(texts))
    }


def main() -> int:
    """Makes the library of this package."""
    root = PACKAGE.parent
    try:
        with tempfile.TemporaryDirectory() as folder:
            build(
                PACKAGE / NAME,
                root / "build" / "kernels" if (root / "pyproject.toml").exists() else Path(folder),
            )
    except (ImportError, OSError) as error:
        warn_once("build", f"there is no new library of machine code: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
