"""Where the numbers of a report come from: facts that all files share, those that differ, and each file's command."""

import json
from collections.abc import Mapping
from typing import Any

from treeopt.view.markup import Content, Markup, element, joined
from treeopt.view.report.contents import Contents, Made

LEADING = (
    *("model", "model_sha256", "heads_sha256", "device", "dtype", "platform", "gpu", "shape", "prompt_file"),
    *("prompts_sha256", "template", "acceptance", "temperature", "top_p", "top_k", "seed", "max_new_tokens"),
    *("positions", "heads", "estimator", "budget", "repeats"),
)
"""Facts in the order in which they are read; all others follow by name."""

OWN = (
    "schema",
    "date",
    "asked",
    *(f"{name}_sha256" for name in ("generations", "ranks", "growth", "latency")),
)
"""What is said file by file, or with the command."""


def origin(contents: Contents) -> Markup | None:
    """All that the provenances say; None where no file has any."""
    if not contents.made:
        return None
    facts = _facts(contents.made)
    rows = [part for name in _ordered(facts) for part in _fact(name, facts[name])]
    files = [element("li", *_file(made)) for made in contents.made.values()]
    return joined(
        [element("dl", *rows), element("h3", "Files, and the commands that make them"), element("ul", *files)]
    )


def _facts(made: Mapping[str, Made]) -> dict[str, dict[str, list[str]]]:
    """By fact and value the files that say so."""
    facts: dict[str, dict[str, list[str]]] = {}
    for file, one in made.items():
        for name, value in one.provenance.items():
            if name not in OWN and value is not None:
                facts.setdefault(name, {}).setdefault(_text(value), []).append(file)
    return facts


def _ordered(facts: Mapping[str, Any]) -> list[str]:
    return [name for name in LEADING if name in facts] + sorted(set(facts) - set(LEADING))


def _fact(name: str, values: Mapping[str, list[str]]) -> list[Markup]:
    """A term, and its value; where there are several, the files of each."""
    terms = [element("dt", name.replace("_", " "))]
    for value, files in values.items():
        where: Content = f" ({', '.join(files)})" if len(values) > 1 else None
        terms.append(element("dd", element("code", value), where))
    return terms


def _file(made: Made) -> list[Content]:
    date = made.provenance.get("date")
    return [
        element("strong", made.file),
        f", {date}" if date is not None else None,
        Markup("<br>"),
        element("code", made.command),
        Markup("<br>"),
        element("small", f"sha256 {made.sha256}"),
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
