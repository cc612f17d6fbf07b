"""The model at work: backbone, heads and prompts, each loaded once and only when a stage needs it."""

import os
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from treeopt.cli.decoding import DEMO_PROMPTS, Decoding
from treeopt.cli.output import note, warn
from treeopt.cli.run import ModelOptions, next_command
from treeopt.errors import InputError
from treeopt.measure.encode import EncodedPrompt, encode_prompts
from treeopt.measure.prompts import Prompt, read_prompts
from treeopt.model.backbone import Backbone
from treeopt.model.checkpoints import load_heads
from treeopt.model.heads import MedusaHeads
from treeopt.search.split import ALL, half_of

NAMED = 5
"""Malformed rows of a prompt file that a warning names; `treeopt inspect` lists all."""


class Session:
    """What the options of a command name, loaded on first use; `loading` as `Backbone.load` takes it."""

    def __init__(self, source: ModelOptions, **loading: Any) -> None:
        self.source = source
        self._loading = loading
        self.run = source.run
        self._read = cache(read_with_warnings)
        self._warn_once = cache(warn)
        from transformers import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()  # the hub's bars are left: a download is worth seeing

    @cached_property
    def backbone(self) -> Backbone:
        """The model, on a CUDA device (of `torchrun`'s choice) where there is one and none was named."""
        import torch

        source = self.source
        cuda = f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ else "cuda"
        device = source.device or (cuda if torch.cuda.is_available() else "cpu")
        return Backbone.load(
            source.model,
            config=source.config,
            adapter=self.adapter_path(),
            device=device,
            dtype=source.dtype,
            **self._loading,
        )

    def adapter_path(self) -> Path | None:
        """--adapter, else the one trained in the run, unless it is the demo's or has no weights; None for none."""
        if self.source.adapter is not None or self.source.model is None:
            return self.source.adapter
        return self.run.adapter if self.run.has_adapter() else None

    @cached_property
    def heads(self) -> MedusaHeads:
        """Heads beside the backbone; for random weights, heads that were never trained."""
        if self.source.config is None:
            path = self.heads_path()
            return load_heads(path, self.backbone)
        backbone = self.backbone
        heads = MedusaHeads.untrained(
            self.source.num_heads, 1, backbone.hidden_size, lambda states: backbone.logits(states)
        )
        return heads.to(device=backbone.device, dtype=backbone.dtype).requires_grad_(False).eval()

    def heads_path(self) -> Path:
        """Where the heads are; InputError for none."""
        path = self.source.heads_path()
        if path is None:
            train = next_command("train medusa1", self.run, {"asked": self.source.asked()})
            raise InputError(
                f"{self.source.model}: no heads; name some with --heads, or make some with `{train}`"
            )
        return path

    def prompt_rows(self, decoding: Decoding) -> list[Prompt]:
        """All prompts as the file has them."""
        return self._read(decoding.prompts)

    def prompts(self, decoding: Decoding, split: str = ALL) -> list[EncodedPrompt]:
        """One half of the prompts, or all, as the model reads them."""
        if self.backbone.tokenizer is None:
            raise InputError(
                f"{self.backbone.name}: has no tokenizer to read prompts with; put one beside it"
            )
        if decoding.prompts == DEMO_PROMPTS and not self.source.is_demo:
            note(f"prompts: no --prompts given, so the demo's ({DEMO_PROMPTS})")
        later = sum(len(prompt.turns) - 1 for prompt in self.prompt_rows(decoding))
        if later and decoding.template == "none" and decoding.turns != 1:
            self._warn_once(
                f"{decoding.prompts}: {later} later turns left out, as --template none knows none"
            )
        prompts = [p for p in self.prompt_rows(decoding) if split in (ALL, half_of(p.id))]
        if not prompts:
            raise InputError(
                f"{decoding.prompts}: no prompt is in the {split} half; add some, or --split all"
            )
        return encode_prompts(
            self.backbone.tokenizer,
            prompts,
            decoding.template,  # type: ignore[arg-type]
            turns=decoding.turns,
        )

    def facts(self, *, heads: bool = True) -> dict[str, Any]:
        """Where what this session measures comes from."""
        backbone = self.backbone
        return {
            "model": backbone.name,
            "model_sha256": backbone.sha256,
            "heads_sha256": (self.heads.sha256 or None) if heads else None,
            "dtype": backbone.dtype_name,
            "device": str(backbone.device),
        } | self.versions()

    def versions(self) -> dict[str, Any]:
        """Facts that the measuring functions do not know by themselves."""
        return {
            "torch": version("torch"),
            "transformers": version("transformers"),
            "asked": self.source.asked() or None,
        }


def read_with_warnings(path: Path) -> list[Prompt]:
    """The prompts of a file, after one warning for all rows that were skipped and one for those repaired."""
    file = read_prompts(path)
    for done, notes in (("skipped", file.skipped), ("repaired", file.repaired)):
        if notes:
            named = ", ".join(notes[:NAMED]) + (", ..." if len(notes) > NAMED else "")
            warn(f"{path}: {len(notes)} {'row' if len(notes) == 1 else 'rows'} {done}: {named}")
    return file.prompts
