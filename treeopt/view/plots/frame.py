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


def picked(record: Mapping[Any, Any], fields: Iterable[str], where: str) -> list[Any]:
    """The values of `fields`; InputError names `where` and the field that the record lacks."""
    for field in fields:
        if field not in record:
            raise InputError(f"{where} has no '{field}'; make the file again")
    return [record[field] for field in fields]


def axis_label(labels: Mapping[str, str], column: str, plot: str) -> str:
    """What stands at the axis of a column; InputError for a column that the plot does not draw."""
    if column not in labels:
        raise InputError(f"{plot}: cannot draw {column!r}; it is one of {', '.join(labels)}")
    return labels[column]
