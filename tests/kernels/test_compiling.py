"""What numba makes of a kernel: code for any processor of its kind, of which nothing is seen but
its entry.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from dcpinspect.kernels.compiling import object_of
from dcpinspect.kernels.library import symbol
from tests.kernels.made import made
from tests.kernels.test_library import WEIGH, weigh


def test_an_exception_in_compiled_code_is_an_error() -> None:
    def steps(size: int) -> int:
        count = 0
        for _ in range(0, 9, size):
            count += 1
        return count

    code = made(steps, "int64(int64)")
    assert code(3) == 3
    with pytest.raises(RuntimeError, match="a compiled kernel raised an exception"):
        code(0)


OTHER = """
import hashlib
import llvmlite.binding as llvm
llvm.get_host_cpu_name = lambda: "skylake-avx512"
llvm.get_host_cpu_features = lambda: llvm.FeatureMap({"avx512f": True})
from dcpinspect.kernels.compiling import object_of
from tests.kernels.test_library import WEIGH, weigh
print(hashlib.sha256(object_of(weigh, WEIGH)).hexdigest())
"""


@pytest.mark.slow
def test_code_is_for_any_processor_of_its_kind_and_the_same_each_time() -> None:
    done = subprocess.run([sys.executable, "-c", OTHER], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == hashlib.sha256(object_of(weigh, WEIGH)).hexdigest()


def test_an_object_file_names_its_kernel_and_nothing_of_numba() -> None:
    code = object_of(weigh, WEIGH)
    assert symbol(weigh).encode() in code
    assert [name for name in (b"NRT_", b"numba", b"entry") if name in code] == []
