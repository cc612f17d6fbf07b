"""Saving and loading artifacts: JSON or safetensors, never pickle, whole or not at all, with their origin."""

import fcntl
import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from treeopt import __version__
from treeopt.errors import InputError, MismatchError

SCHEMA = 1
"""Version of the artifacts' layout. A file with a higher one is refused."""

MADE_BY = {
    "generations": "treeopt generate",
    "ranks": "treeopt calibrate",
    "passes": "treeopt calibrate --acceptance typical",
    "growth": "treeopt grow",
    "latency": "treeopt profile",
    "choice": "treeopt choose",
    "evaluation": "treeopt evaluate",
    "training": "treeopt train",
}
"""The command that makes each kind of artifact."""

LINE = 110
METADATA = "treeopt"


class Lock:
    """A file or directory that no other run may write to, for as long as this object lives or its `with` block lasts.

    Raises:
        InputError: another run holds it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise InputError(f"{path}: another run is writing it; wait, or name another place") from error

    def release(self) -> None:
        """Let others have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> None:
        """Held already."""

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def sha256_bytes(data: bytes) -> str:
    """Content hash, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Content hash of a file, read in pieces; InputError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def provenance(**facts: Any) -> dict[str, Any]:
    """Where an artifact comes from: versions, machine, date (UTC, ISO 8601) and all `facts` but None."""
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "treeopt": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return made | {name: fact for name, fact in facts.items() if fact is not None}


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text atomically, making parent directories. InputError when the place cannot be written."""
    write_bytes(Path(path), text.encode())


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a JSON line to a log. InputError when the place cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def write_json(path: str | Path, content: Mapping[str, Any], kind: str) -> None:
    """Write `content` with its `kind` and the schema version; numpy numbers and arrays are taken too.

    Long lists of lists or objects take a line for each entry, so that artifacts can be read and compared.
    """
    write_text(path, format_json({"kind": kind, "schema": SCHEMA} | dict(content)))


def load_json(path: str | Path, kind: str | None = None) -> Any:
    """Any JSON value; `kind` only serves the message of the InputError when the file cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}){_made_by(kind)}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}){_made_by(kind)}") from error


def read_json(path: str | Path, kind: str | None = None, fields: Iterable[str] = ()) -> dict[str, Any]:
    """Read a JSON object that has all `fields`.

    A file that names a kind must be of this `kind`; one made by hand need not name any. InputError when the
    file is absent, is not such an object, or has a newer schema.
    """
    content = load_json(path, kind)
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds a JSON {type(content).__name__}, not an object{_made_by(kind)}")
    _check_header(path, content, kind)
    missing = [field for field in fields if field not in content]
    if missing:
        raise InputError(f"{path}: has no {', '.join(missing)}{_made_by(kind)}")
    return content


def save_arrays(
    path: str | Path, arrays: Mapping[str, np.ndarray[Any, Any]], kind: str, metadata: Mapping[str, Any]
) -> None:
    """Write arrays as safetensors, with `metadata` as JSON in the header."""
    header = json.dumps({"kind": kind, "schema": SCHEMA} | dict(metadata), default=_plain, allow_nan=False)
    ordered = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_bytes(Path(path), safetensors.numpy.save(ordered, {METADATA: header}))


def load_arrays(
    path: str | Path, kind: str | None = None
) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """Read what `save_arrays` wrote, of one kind or any: the arrays, and the metadata. InputError for anything else."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata: Any = json.loads((file.metadata() or {}).get(METADATA, "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}){_made_by(kind)}") from error
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a safetensors file ({error}){_made_by(kind)}") from error
    if not isinstance(metadata, dict):
        raise InputError(
            f"{path}: has no treeopt metadata, so it is no {kind or 'artifact'} file{_made_by(kind)}"
        )
    _check_header(path, metadata, kind)
    return arrays, metadata


def require_match(
    name_a: str,
    provenance_a: Mapping[str, Any],
    name_b: str,
    provenance_b: Mapping[str, Any],
    keys: Iterable[str] = ("model_sha256", "heads_sha256"),
) -> None:
    """MismatchError when both provenances have one of the `keys` and differ there."""
    for key in keys:
        a, b = provenance_a.get(key), provenance_b.get(key)
        if a is not None and b is not None and a != b:
            raise MismatchError(
                f"{name_a} and {name_b} do not belong together: {key} is {a!s:.12} in the first and {b!s:.12}"
                " in the second; make both again with the same model and heads"
            )


def format_json(content: Any) -> str:
    """JSON text of an artifact: what fits stays on one line, longer objects and nested lists are broken."""
    return _layout(content, "") + "\n"


def _layout(content: Any, indent: str) -> str:
    flat = json.dumps(content, default=_plain, allow_nan=False, ensure_ascii=False)
    is_object = isinstance(content, dict)
    nested = is_object or (isinstance(content, (list, tuple)) and any(map(_is_container, content)))
    if not nested or len(indent) + len(flat) <= LINE:
        return flat
    deeper = indent + " "
    if is_object:
        entries = [f"{json.dumps(str(key))}: {_layout(value, deeper)}" for key, value in content.items()]
    else:
        entries = [_layout(entry, deeper) for entry in content]
    opening, closing = "{}" if is_object else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(entries) + f"\n{indent}{closing}"


def _is_container(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple))


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _check_header(path: str | Path, content: Mapping[str, Any], kind: str | None) -> None:
    found, schema = content.get("kind", kind), content.get("schema", SCHEMA)
    if kind is not None and found != kind:
        raise InputError(f"{path}: is a {found} file, not a {kind} file{_made_by(kind)}")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise InputError(f"{path}: has schema {schema!r:.40}, this reads up to {SCHEMA}; update treeopt")


def _made_by(kind: str | None) -> str:
    return f"; `{MADE_BY[kind]}` makes this file" if kind in MADE_BY else ""


def write_bytes(path: Path, data: bytes) -> None:
    """To a temporary file beside `path`, then renamed, so that no reader ever sees half an artifact."""
    if path.is_dir() or (path.exists() and not path.is_file()):
        raise InputError(f"{path}: cannot be written, it is no plain file; name a file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
