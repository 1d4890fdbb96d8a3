"""Sentences of many rows that differ only in their numbers: as texts, or as an Arrow array, which
is made many times faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

import numpy as np
import numpy.typing as npt

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Sentences:
    """One sentence per row."""

    forms: Sequence[str]
    """Templates with the names of numbers, as in ``the marker in row {row}``."""
    form: IntArray
    """The template of each row, as its place in ``forms``."""
    numbers: Mapping[str, npt.NDArray[Any]]
    """A column of numbers for each name, one number per row."""

    def texts(self) -> list[str]:
        """Returns the sentences as texts."""
        columns = [column.tolist() for column in self.numbers.values()]
        rows = zip(self.form.tolist(), *columns, strict=True)
        return [
            self.forms[form].format(**dict(zip(self.numbers, row, strict=True)))
            for form, *row in rows
        ]

    def arrow(self) -> Any:
        """Returns the sentences as an Arrow array."""
        import pyarrow as pa  # deferred: not everyone who reads sentences exports them
        import pyarrow.compute as pc

        texts, form_rows = [pa.array([], pa.string())], [np.zeros(0, np.int64)]
        for number, form in enumerate(self.forms):
            rows, pieces = np.flatnonzero(self.form == number), list[Any]()
            for literal, name, *_ in Formatter().parse(form):
                pieces.append(pa.scalar(literal))
                if name is not None:
                    pieces.append(pc.cast(pa.array(self.numbers[name][rows]), pa.string()))
            texts.append(pc.binary_join_element_wise(*pieces, ""))
            form_rows.append(rows)
        return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(form_rows))))
