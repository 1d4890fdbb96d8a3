"""What the fuzzer found once is read as it should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.search import CORPUS, TARGETS, failure

FINDS = sorted(path.relative_to(CORPUS) for path in CORPUS.glob("*/*"))


@pytest.mark.parametrize("find", FINDS, ids=str)
def test_what_was_found_once_is_not_again(find: Path) -> None:
    error = failure(TARGETS[find.parent.name], (CORPUS / find).read_bytes())
    if error is not None:
        raise error
