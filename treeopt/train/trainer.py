"""The training loop is transformers' `Trainer`; here is what Medusa adds: losses by head, two learning rates, a log.

A step's loss divides each sum by the number of known truths of the whole step, over all accumulated batches and all
processes, so that accumulation and several GPUs change nothing but rounding.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from treeopt.errors import InputError
from treeopt.measure.states import UNKNOWN
from treeopt.train.callbacks import Interrupts, Progress, RecordsFile, Tally
from treeopt.train.data import Answers
from treeopt.train.losses import head_weights, ramp
from treeopt.train.module import HeadsOnBackbone
from treeopt.train.processes import world_size

PRECISIONS = ("float32", "bfloat16", "float16")
RECORDS, CHECKPOINTS = 50, 10  # of a whole run, about


@dataclass(frozen=True)
class LoopSettings:
    """How to train, whatever the objective. `batch_size` counts answers of one step on one device.

    `lr_warmup` and `ramp` are shares of all steps; `precision` is that of autocast, not of the weights.
    """

    epochs: float = 4
    learning_rate: float = 1e-3
    heads_lr_factor: float = 1.0
    batch_size: int = 8
    accumulate: int = 1
    lr_warmup: float = 0.05
    lambda_0: float = 1.0
    ramp: float = 0.0
    precision: str = "float32"
    seed: int = 0


class HeadTrainer(Trainer):
    """Trains a `HeadsOnBackbone` on `Answers`."""

    def __init__(
        self,
        module: HeadsOnBackbone,
        settings: LoopSettings,
        directory: Path,
        train: Answers,
        held_out: Answers,
        *,
        log: Path,
        stage: str,
        device: torch.device,
    ) -> None:
        self.interrupts = Interrupts()
        self._tally = Tally(train.heads)
        super().__init__(
            module,
            _arguments(settings, directory, len(train), device, judged=len(held_out) > 0),
            data_collator=train.collate,
            train_dataset=train,
            eval_dataset=held_out if len(held_out) > 0 else None,
            callbacks=[Progress(stage), self.interrupts, self._tally, RecordsFile(log, stage)],
        )
        self.remove_callback(PrinterCallback)
        self.model_accepts_loss_kwargs = True  # each loss is divided by the counts of the whole step
        self._module = module
        self._settings = settings
        self._held_out = held_out

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The batches of one step, and how many truths are known in them and in those of other processes, [K + 1]."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        if not batches:
            return batches, None
        counts = sum((batch["truths"] != UNKNOWN).sum(1) for batch in batches)
        assert isinstance(counts, torch.Tensor)
        return batches, self.accelerator.reduce(counts.to(device), "sum")

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """L = L_LM + lambda_0 * sum_k lambda_k * CE_k (equations 1 and 2); L_LM is 0 where the backbone is frozen."""
        counts = num_items_in_batch
        sums = model(**inputs)["loss"]
        self._tally.add(sums.detach(), (inputs["truths"] != UNKNOWN).sum(1))
        means = sums / counts.clamp(min=1)
        rising = round(self.state.max_steps * self._settings.ramp)
        weight = ramp(self._settings.lambda_0, self.state.global_step, rising)
        loss = means[0] + weight * (head_weights(len(means) - 1, means.device) * means[1:]).sum()
        if not torch.isfinite(loss):
            raise InputError(
                f"the loss of step {self.state.global_step + 1} is {loss.item()}; lower --learning-rate, or take a"
                " precision of more range"
            )
        loss = loss * self.accelerator.num_processes  # which average their gradients
        return (loss, {}) if return_outputs else loss

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """AdamW without weight decay; the heads' learning rate is `heads_lr_factor` times the backbone's."""
        if self.optimizer is None:
            rate = self.args.learning_rate
            named = [(name, p) for name, p in self._module.named_parameters() if p.requires_grad]
            groups = [
                {"params": [p for name, p in named if not name.startswith("heads.")], "lr": rate},
                {
                    "params": [p for name, p in named if name.startswith("heads.")],
                    "lr": rate * self._settings.heads_lr_factor,
                },
            ]
            self.optimizer = torch.optim.AdamW([g for g in groups if g["params"]], weight_decay=0.0)
        return self.optimizer

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Loss, top-1 and top-5 accuracy on the held-out answers, the backbone's and each head's."""
        loader = DataLoader(self._held_out, self.args.eval_batch_size, collate_fn=self._held_out.collate)
        model = self._module.eval()
        totals: dict[str, torch.Tensor] = {}
        with torch.no_grad(), self.compute_loss_context_manager():
            for batch in loader:
                inputs = self._prepare_inputs(batch)
                sums = model(**inputs) | {"count": (inputs["truths"] != UNKNOWN).sum(1)}
                totals = {name: totals.get(name, 0) + value.double() for name, value in sums.items()}
        count = totals.pop("count")
        metrics: dict[str, Any] = {}
        for name, total in totals.items():
            own, *heads = rounded(total / count)
            metrics |= {f"held_out_lm_{name}": own, f"held_out_{name}": heads}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """With errors as one line; what is half-written is not gone on from."""
        try:
            super()._save_checkpoint(*args, **kwargs)
        except (OSError, SafetensorError, RuntimeError) as error:  # the last is torch.save's
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.args.output_dir}: a checkpoint cannot be written ({reason:.100}); make room, and the same"
                " command goes on from the one before"
            ) from error

    def log(self, logs: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Add to a record the mean loss of the backbone and of each head since the last one."""
        if "loss" in logs:
            sums, counts = self.accelerator.reduce(self._tally.sums.to(self.args.device), "sum")
            self._tally.sums.zero_()
            own, *heads = rounded(sums / counts)
            logs = logs | ({"train_lm_loss": own} if self._module.joint else {}) | {"train_loss": heads}
        super().log(logs, *args, **kwargs)


def rounded(values: torch.Tensor) -> list[float | None]:
    """As JSON has them; None for what is not known (nothing over nothing) or no finite number."""
    return [round(value, 5) if math.isfinite(value) else None for value in values.tolist()]


def _arguments(
    settings: LoopSettings, directory: Path, answers: int, device: torch.device, *, judged: bool
) -> TrainingArguments:
    """The settings as transformers calls them, with records and checkpoints at even steps."""
    at_once = settings.batch_size * settings.accumulate * world_size()
    steps = math.ceil(math.ceil(answers / at_once) * settings.epochs)
    every = max(1, steps // RECORDS)
    arguments = TrainingArguments(
        output_dir=str(directory),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=round(steps * settings.lr_warmup),
        weight_decay=0.0,
        bf16=settings.precision == "bfloat16",
        fp16=settings.precision == "float16",
        eval_strategy="epoch" if judged else "no",
        logging_strategy="steps",
        logging_steps=every,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=every * (RECORDS // CHECKPOINTS),
        save_total_limit=2,
        seed=settings.seed,
        report_to=[],
        disable_tqdm=True,
        use_cpu=device.type == "cpu",
        remove_unused_columns=False,
        dataloader_pin_memory=device.type != "cpu",
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # one a process, and no DataParallel, which would split rows
    return arguments
