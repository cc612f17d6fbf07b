"""The table that an info is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from treeopt.errors import InputError


def frame(rows: Iterable[Sequence[Any]], columns: Mapping[str, str], empty: str) -> pd.DataFrame:
    """Rows under `columns` (name to pandas type); InputError, saying `empty`, where there is no row to draw."""
    table = pd.DataFrame(list(rows), columns=list(columns))
    if table.empty:
        raise InputError(empty)
    return table.astype(dict(columns))
