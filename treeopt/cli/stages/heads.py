"""Heads on disk: what is there, and the same in a runtime's layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treeopt.cli.run import ModelOptions, RunDirectory, default_directory
from treeopt.errors import InputError
from treeopt.model.layouts import ABSENT, LAYOUTS, Layout, entry
from treeopt.model.spellings import FILE_NAMES, recognise
from treeopt.view.tables import table

LM_HEADS = {
    "own": "one for each head",
    "common": "one for all heads, in the file",
    "shared": "the backbone's",
}


def find_layout(name: str) -> Layout:
    """The layout called `name`; InputError that lists them all."""
    if name not in LAYOUTS:
        raise InputError(f"--layout {name}: unknown; use one of {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def layouts_content() -> dict[str, Any]:
    """All layouts by name."""
    return {
        "layouts": {
            layout.name: {
                "versions": layout.versions,
                "description": layout.description,
                "file": layout.files[0],
                "keys_like": layout.spelling.example(),
                "most_layers": dict(layout.takes),
                "same_layers": layout.one_block,
            }
            for layout in LAYOUTS.values()
        }
    }


def layouts_text() -> str:
    """The layouts with their limits, then the versions that they fit and what is written."""
    rows = []
    for layout in LAYOUTS.values():
        limits = [f"{kind}, {most} layer" if most else kind for kind, most in layout.takes.items()]
        alike = " (layers alike)" if layout.one_block else ""
        rows.append([layout.name, layout.files[0], layout.spelling.example(), " or ".join(limits) + alike])
    lines = [f"{layout.name}: {layout.description} ({layout.versions})" for layout in LAYOUTS.values()]
    meanings = [f"LM head {kind}: {meaning}" for kind, meaning in LM_HEADS.items()]
    return "\n".join([table(["layout", "file", "keys like", "LM head"], rows), "", *meanings, "", *lines])


def inspect_heads(path: Path) -> dict[str, Any]:
    """What a directory or file holds, where its config.json contradicts it, and what each runtime would miss."""
    from treeopt.model.checkpoints import read_heads
    from treeopt.model.convert import lacks

    stored = read_heads(path)
    return {
        "file": str(stored.file),
        "keys": stored.spelling.title,
        "heads": stored.shape.heads,
        "layers": stored.shape.layers,
        "hidden_size": stored.shape.hidden_size,
        "vocabulary": stored.shape.vocabulary,
        "lm_head": stored.shape.lm_head,
        "dtypes": stored.dtypes,
        "bytes": stored.bytes,
        "contradictions": stored.contradictions(),
        "other_files": [
            name
            for name in FILE_NAMES
            if name.startswith("medusa") and name != stored.file.name and stored.file.with_name(name).exists()
        ],
        "runtimes": {
            layout.name: {"versions": layout.versions, "lacks": lacks(layout, stored)}
            for layout in LAYOUTS.values()
        },
    }


def inspection_text(content: Mapping[str, Any]) -> str:
    """The same in lines."""
    sizes = f"hidden size {content['hidden_size']:,}"
    if content["vocabulary"] is not None:
        sizes += f", vocabulary {content['vocabulary']:,}"
    lines = [
        f"{content['file']}: keys as {content['keys']} has them",
        f"heads {content['heads']}, layers {content['layers']}, {sizes}",
        f"LM head: {LM_HEADS[content['lm_head']]}",
        f"{', '.join(content['dtypes'])}, {content['bytes'] / 1e6:,.1f} MB",
        *content["contradictions"],
        *(f"{name} is there too: some runtimes read it instead" for name in content["other_files"]),
        "",
    ]
    for name, runtime in content["runtimes"].items():
        lacking = runtime["lacks"]
        verdict = f"wants {'; '.join(lacking)}" if lacking else "reads this as it is"
        lines.append(f"{name}: {verdict}")
    return "\n".join(lines)


def convert_heads(
    path: Path,
    layout: Layout,
    output: Path,
    *,
    model: str | None,
    adapter: Path | None,
    dtype: str | None,
    overwrite: bool,
) -> dict[str, Any]:
    """Write the heads of `path` in a layout; its files. What is not heads is never replaced."""
    from treeopt.cli.session import Session
    from treeopt.model.backbone import DTYPES
    from treeopt.model.checkpoints import read_heads, require_counts
    from treeopt.model.convert import convert, needs_backbone

    stored = read_heads(path)
    require_counts(stored)
    _require_free(layout, output, overwrite=overwrite)
    backbone = None
    if model is not None and needs_backbone(layout, stored):
        kind = next((kind for kind in stored.dtypes if kind in DTYPES), "float32")
        run = RunDirectory(default_directory(model))
        source = ModelOptions(run, model, adapter=adapter, device="cpu", dtype=kind)
        backbone = Session(source, differentiate="head").backbone
    file = convert(
        stored,
        layout,
        output,
        backbone=backbone,
        base_model=model or "",
        dtype=None if dtype is None else DTYPES[dtype],
    )
    written = [file, *([output / "config.json"] if layout.counts[0] else [])]
    return {"files": [str(file) for file in written], "layout": layout.name, "versions": layout.versions}


def _require_free(layout: Layout, output: Path, *, overwrite: bool) -> None:
    """InputError where heads would replace something, or would not be the ones that are found there."""
    file, config = output / layout.files[0], output / "config.json"
    targets = {file: _is_heads_alone} | ({config: _is_config_of_heads} if layout.counts[0] else {})
    for target, is_ours in targets.items():
        if target.exists() and not overwrite:
            raise InputError(f"{target}: is there already; name another --output, or --overwrite it")
        if target.exists() and not is_ours(target):
            raise InputError(f"{target}: is not of heads, and stays; name another --output")
    first = FILE_NAMES[: FILE_NAMES.index(file.name)]
    if found := [output / name for name in first if (output / name).exists()]:
        raise InputError(f"{found[0]}: would be read instead of {file.name}; name another --output")


def _is_heads_alone(file: Path) -> bool:
    """Whether a file has heads, and no model around them."""
    from treeopt.model.tensor_files import read_tensors

    try:
        names = read_tensors(file).keys()
        return all(name.startswith(recognise(file, names)[0].prefix) for name in names)
    except InputError:
        return False


def _is_config_of_heads(file: Path) -> bool:
    """Whether a config.json counts heads, and is not of a model that has some."""
    from treeopt.model.checkpoints import read_config

    config = read_config(file)
    counts = any(entry(config, name) is not ABSENT for layout in LAYOUTS.values() for name in layout.counts)
    return counts and config.get("architectures", ["MedusaModel"]) == ["MedusaModel"]
