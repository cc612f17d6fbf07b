"""The demo backbone's training text: every function of Python's standard library, in one canonical layout.

A document is one function or method, dedented and written by `ast.unparse`: no comments, one style of quotes
and spacing, and of a docstring its first paragraph's first line. A small model can master that; it cannot master
nine megabytes of everybody's formatting. Test suites and generated tables are left out.

    python corpus.py            # prints the number of documents, characters and the text's hash
"""

import ast
import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = frozenset(
    "site-packages dist-packages test tests idlelib lib2to3 encodings pydoc_data turtledemo ensurepip".split()
)


def source_files() -> list[Path]:
    """The standard library's modules, in path order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = (path for path in root.rglob("*.py") if not LEFT_OUT & set(path.relative_to(root).parts))
    return sorted(files, key=lambda path: path.relative_to(root).as_posix())


def functions(source: str) -> Iterator[str]:
    """Each function and method of a module, on its own and in canonical layout; nothing if it does not parse."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.unparse(_shorten_docstring(node))


def _shorten_docstring(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> ast.FunctionDef | ast.AsyncFunctionDef:
    docstring = ast.get_docstring(node)
    if docstring is None:
        return node
    first = docstring.strip().split("\n", 1)[0].strip()
    node.body[0] = ast.Expr(ast.Constant(first))
    return node


def is_held_out(document: str) -> bool:
    """One document in fifty, by its own hash, is never trained on."""
    return hashlib.sha256(document.encode()).digest()[0] < 256 // 50


def documents() -> list[str]:
    """All documents, without repeats, in order of first appearance."""
    found: dict[str, None] = {}
    for path in source_files():
        for document in functions(path.read_text(encoding="utf-8", errors="ignore")):
            found.setdefault(document)
    return list(found)


def fingerprint(texts: list[str]) -> str:
    """SHA-256 over all documents: the same Python release gives the same text."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", errors="surrogatepass")).hexdigest()


if __name__ == "__main__":
    texts = documents()
    held_out = sum(map(is_held_out, texts))
    print(f"{len(texts)} documents ({held_out} held out), {sum(map(len, texts))} characters")
    print(fingerprint(texts))
