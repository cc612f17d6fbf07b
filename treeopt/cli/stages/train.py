"""Heads, and adapters, trained on the run's own answers."""

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from treeopt.artifact import Lock, require_match
from treeopt.cli.decoding import Decoding
from treeopt.cli.run import ModelOptions, RunDirectory, require_writable
from treeopt.cli.session import Session
from treeopt.cli.stages.generate import ensure_generations
from treeopt.errors import InputError
from treeopt.measure.generations import Generation, read_generations, read_provenance
from treeopt.model.adapter import save_adapter
from treeopt.model.checkpoints import read_config, save_heads
from treeopt.model.heads import MedusaHeads
from treeopt.model.spellings import FILE_NAMES
from treeopt.search.split import ALL, half_of
from treeopt.train.medusa1 import HeadSettings, require_precision, train_medusa1
from treeopt.train.medusa2 import LoraSettings, train_medusa2
from treeopt.train.processes import is_main_process, world_size
from treeopt.train.trainer import LoopSettings

UNFINISHED = "training"  # in the output directory, until all is well


class Training:
    """One training command: its model, answers and output directory.

    Whatever is unfinished lies in `training` there, and the same command goes on from it; results are replaced only
    by whole new ones. InputError when there are results already, unless the data options say `overwrite`.
    """

    def __init__(
        self,
        source: ModelOptions,
        decoding: Decoding,
        shape: dict[str, Any],
        data: dict[str, Any],
        output: Path,
        **loading: Any,
    ) -> None:
        self._shape = HeadSettings(
            shape["num_heads"], shape["num_layers"], shape["own_lm_head"], shape["held_out"]
        )
        self._source, self._decoding, self._data, self._output = source, decoding, data, output
        self.unfinished = output / UNFINISHED
        self._session = Session(source, quantize=data["quantize"], **loading)

    def medusa1(self, loop: LoopSettings) -> Path:
        """Train heads; the weights' file."""
        self._begin(self._output)
        with self._lock():
            require_precision(loop, self._session.backbone)  # before answers are made
            heads = train_medusa1(
                self._session.backbone,
                self._answers(),
                self._shape,
                loop,
                self.unfinished,
                precompute=self._precompute(),
                overwrite=self._data["overwrite"],
            )
            return self._end(lambda: self._save_heads(self._output, heads))

    def medusa2(
        self,
        warmup: LoopSettings | None,
        joint: LoopSettings,
        *,
        lora: LoraSettings | None,
        self_distill: bool,
    ) -> Path:
        """Train heads and backbone; the heads' file, beside which lie `adapter` or `model`."""
        run = RunDirectory(self._output)
        self._require_new_model(run, lora=lora is not None)
        self._begin(run.heads, run.adapter, self._output / "model")
        with self._lock():
            require_precision(joint, self._session.backbone)
            heads, adapter = train_medusa2(
                self._session.backbone,
                self._answers(),
                self._shape,
                warmup,
                joint,
                self.unfinished,
                lora=lora,
                self_distill=self_distill,
                precompute=self._precompute(),
                overwrite=self._data["overwrite"],
            )
            return self._end(lambda: self._save_model(run, heads, adapter))

    def records(self) -> list[dict[str, Any]]:
        """The settings and all records that the log beside the results has."""
        lines = (self._output / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def _begin(self, heads: Path, *others: Path) -> None:
        """InputError, before any long work, where the results would not go, or would replace what is no result."""
        unfinished, overwrite = self.unfinished, self._data["overwrite"]
        if any(heads.glob("medusa_lm_head.*")) and not overwrite:
            raise InputError(f"{heads}: holds heads already; name another --output, or --overwrite them")
        config = read_config(heads / FILE_NAMES[0])
        if (heads / "config.json").is_file() and ("medusa_num_heads" not in config or "model_type" in config):
            raise InputError(
                f"{heads / 'config.json'}: is not of heads, which have their own; name another --output"
            )
        begun = (unfinished / "run.json").is_file()
        for place in others:
            if place.exists() and not begun and not overwrite:
                raise InputError(f"{place}: is there already; name another --output, or --overwrite it")
        foreign = not begun and unfinished.is_dir() and any(unfinished.iterdir())
        if foreign and is_main_process() and not overwrite:
            raise InputError(
                f"{unfinished}: is cleared at the end, but does not tell which training it is of; name another"
                " --output, or --overwrite it"
            )
        require_writable(unfinished / "log.jsonl")
        self._output.mkdir(parents=True, exist_ok=True)

    def _require_new_model(self, run: RunDirectory, *, lora: bool) -> None:
        """InputError where the new model would take the place of the old one, or could not be loaded."""
        source, adapter = self._source, self._session.adapter_path()
        if run.directory.resolve() == source.run.directory.resolve():
            raise InputError(
                f"{run}: holds the answers of the model as it was; name another --output for the new one"
            )
        if source.model is not None and (run.directory / "model").resolve() == Path(source.model).resolve():
            raise InputError(
                f"{source.model}: would be replaced by what is trained from it; name another --output"
            )
        if lora and adapter is not None:
            raise InputError(
                f"{adapter}: no command loads another adapter on top of it; take --full, or train from the model"
                " without it (another --run)"
            )

    def _answers(self) -> list[Generation]:
        """Answers to learn from, of the half asked for: the run's, made where there are none, or of the files named."""
        session, split = self._session, self._data["split"]
        backbone, files = session.backbone, list(self._data["generations"])
        if world_size() > 1 and not files:
            files = [session.run.generations]  # several processes cannot write one file
        if not files:
            made = ensure_generations(session, self._decoding)
            answers = [answer for answer in made if split in (ALL, half_of(answer.id))]
        else:
            answers = []
            if len({file.resolve() for file in files}) < len(files):
                raise InputError("--generations: the same file twice; name each once")
            for file in files:
                require_match(str(file), read_provenance(file), "the model", session.facts(heads=False))
                answers += read_generations(
                    file, vocabulary=backbone.vocabulary, end_tokens=backbone.end_tokens, split=split
                )
        if not answers:
            raise InputError(
                f"no answer is in the {split} half of the prompts; add prompts, or take --split all"
            )
        return answers

    def _precompute(self) -> bool:
        wanted = self._data["precompute"]
        by_default = self._session.backbone.device.type == "cpu" and world_size() == 1
        return by_default if wanted is None else wanted

    def _lock(self) -> AbstractContextManager[None]:
        """No other run writes here meanwhile; the processes of one run do so together."""
        return Lock(self._output) if is_main_process() else nullcontext()

    def _save_model(self, run: RunDirectory, heads: MedusaHeads, adapter: Any) -> Path:
        """Write heads and adapter, or the whole model where there is none."""
        backbone = self._session.backbone
        if adapter is None:
            backbone.save(self._output / "model")
            shutil.rmtree(run.adapter, ignore_errors=True)  # of an earlier training: it would be used
        else:
            base = self._source.model or backbone.name
            save_adapter(adapter, run.adapter, base_model=base, base_sha256=backbone.sha256)
        return self._save_heads(run.heads, heads)

    def _save_heads(self, directory: Path, heads: MedusaHeads) -> Path:
        import torch

        dtype = torch.float16 if self._data["half"] else None
        base = self._source.model or self._session.backbone.name
        return save_heads(directory, heads, base_model=base, dtype=dtype)

    def _end(self, save: Callable[[], Path]) -> Path:
        """Put the log, its plot and the results in place, and clear away what is no longer needed."""
        unfinished = self.unfinished
        if not is_main_process():
            return unfinished
        from treeopt.view.training import save_training_plot

        shutil.copyfile(unfinished / "log.jsonl", self._output / "log.jsonl")
        save_training_plot(self.records(), self._output / "training.svg")
        file = save()  # last, as heads say that all is there
        shutil.rmtree(unfinished)
        return file
