"""Values piece by piece -> columns: arrays that grow in place and are as narrow as their values allow."""

from collections.abc import Hashable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

FIRST_ROWS = 1 << 12
_Key = TypeVar("_Key", bound=Hashable)


class Column:
    """One array with room to spare; memory that was never written is not taken."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.data = np.empty(FIRST_ROWS, dtype)
        self.count = 0
        self._limits = np.iinfo(self.data.dtype) if self.data.dtype.kind == "i" and self.data.itemsize < 8 else None

    def extend(self, values: NDArray[Any] | int, count: int) -> None:
        """Append so many, or the one value so often; a value beyond the column's integers widens them."""
        if (
            not isinstance(values, int)
            and self._limits
            and values.itemsize > self.data.itemsize
            and count
            and not self._fits(values)
        ):
            self.data, self._limits = self.data.astype(np.int64), None
        end = self.count + count
        if end > len(self.data):
            larger = np.empty(max(end, 2 * len(self.data)), self.data.dtype)
            larger[: self.count] = self.data[: self.count]
            self.data = larger
        self.data[self.count : end] = values
        self.count = end

    def _fits(self, values: NDArray[Any]) -> bool:
        return self._limits is None or bool(values.min() >= self._limits.min and values.max() <= self._limits.max)

    def taken(self) -> NDArray[Any]:
        """The values; the column is empty afterwards."""
        values, self.data, self.count = self.data[: self.count], np.empty(0, self.data.dtype), 0
        return values

    def __getstate__(self) -> dict[str, Any]:
        """Without the room to spare: this travels between processes."""
        return {"data": self.data[: self.count], "count": self.count, "_limits": self._limits}


class Columns:
    """Columns of one table; they grow together."""

    def __init__(self, **dtypes: DTypeLike) -> None:
        self.columns = {name: Column(dtype) for name, dtype in dtypes.items()}

    def __len__(self) -> int:
        return next(iter(self.columns.values())).count

    def extend(self, **values: NDArray[Any] | int) -> None:
        """Rows for all columns; the first of them says how many, another may be one number for all."""
        count = len(values[next(iter(self.columns))])  # type: ignore[arg-type]
        for name, column in self.columns.items():
            column.extend(values[name], count)

    def taken(self) -> dict[str, NDArray[Any]]:
        """The table; empty afterwards."""
        return {name: column.taken() for name, column in self.columns.items()}


class Rows(dict[_Key, int]):
    """Values -> row numbers, in order of first use."""

    def __missing__(self, value: _Key) -> int:
        row = self[value] = len(self)
        return row
