"""Train the demo backbone: a small Llama on the standard library's functions, from nothing, on a CPU.

    python calibration/demo/train_backbone.py --out /tmp/demo-backbone

writes the tokenizer, the weights in half precision, `config.json` and `train_log.jsonl`. It is resumable: a
checkpoint is written every `--save-every` steps and the next run goes on from it. Matrix products run in
bfloat16 under autocast, the weights and the optimiser in float32.

The last `--future-steps` steps also ask for the tokens further on (multi-token prediction, Gloeckle et al. 2024,
arXiv 2404.19737), through five throw-away heads of Medusa's shape: hidden states then hold what heads can learn to
read. The heads that treeopt ships are trained afterwards, on the frozen result.
"""

import json
import math
import os
import platform
import time
from itertools import count
from pathlib import Path

import click
import corpus
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from treeopt.measure.states import UNKNOWN
from treeopt.model.heads import MedusaHeads
from treeopt.train.losses import medusa1_loss

VOCABULARY = 1024
BOS, EOS = "<bos>", "<eos>"
WINDOW = 256  # tokens of one training row
FUTURE_HEADS = 5
FUTURE_WEIGHT = 0.3
FUTURE_POSITIONS = 2048  # of a batch, drawn anew at each step
FUTURE_RATE = 0.5  # peak learning rate of that phase, as a share of the first's
ARCHITECTURE = dict(
    vocab_size=VOCABULARY,
    hidden_size=192,
    num_hidden_layers=8,
    intermediate_size=512,
    num_attention_heads=6,
    num_key_value_heads=2,
    tie_word_embeddings=True,
    max_position_embeddings=1024,
    bos_token_id=0,
    eos_token_id=1,
)


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE; every encoded text starts with the beginning-of-document token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        clean_up_tokenization_spaces=False,
        model_max_length=ARCHITECTURE["max_position_embeddings"],
    )


def encode(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[np.ndarray]:
    """One array of ids for each document, begin and end tokens included."""
    return [np.array([*ids, 1], dtype=np.int64) for ids in tokenizer(texts)["input_ids"]]


def batches(documents: list[np.ndarray], rows: int, seed: int, start: int):
    """Endless [rows, WINDOW + 1] batches; each epoch shuffles the documents and cuts at another offset."""
    step = 0
    for epoch in count():
        rng = np.random.default_rng([seed, epoch])
        stream = np.concatenate([documents[i] for i in rng.permutation(len(documents))])
        stream = stream[rng.integers(WINDOW) :]
        windows = len(stream) // (WINDOW + 1)
        stream = stream[: windows * (WINDOW + 1)].reshape(windows, WINDOW + 1)
        for low in range(0, windows - rows + 1, rows):
            if step >= start:
                yield torch.from_numpy(stream[low : low + rows])
            step += 1


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, documents: list[np.ndarray]) -> float:
    """Nats per token over the held-out documents, each on its own, at most WINDOW tokens of each."""
    total, count = 0.0, 0
    for document in documents:
        ids = torch.from_numpy(document[: WINDOW + 1])[None]
        total += float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    return total / count


def future_loss(heads: MedusaHeads, hidden: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """Loss of the throw-away heads at some of the positions: head k guesses the token k places past the next."""
    ahead = torch.nn.functional.pad(batch, (0, FUTURE_HEADS), value=UNKNOWN)
    truths = torch.stack([ahead[:, k + 1 : k + 1 + WINDOW] for k in range(1, FUTURE_HEADS + 1)]).flatten(1)
    chosen = torch.randperm(truths.shape[1])[:FUTURE_POSITIONS]
    return medusa1_loss(heads(hidden.flatten(0, 1)[chosen]), truths[:, chosen])[0]


def learning_rate(step: int, steps: int, peak: float, warmup: int = 100) -> float:
    """Linear warm-up, then cosine to a hundredth of the peak."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


def optimizer_for(model: LlamaForCausalLM, heads: MedusaHeads) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2] + list(heads.parameters())
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95))


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--steps", default=1800, show_default=True)
@click.option("--future-steps", default=600, show_default=True, help="More steps, with the future's loss.")
@click.option("--rows", default=32, show_default=True, help="Rows of 256 tokens in a batch.")
@click.option("--peak-lr", default=3e-3, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--save-every", default=100, show_default=True)
def main(
    out: Path, steps: int, future_steps: int, rows: int, peak_lr: float, seed: int, save_every: int
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    texts = corpus.documents()
    train_texts = [text for text in texts if not corpus.is_held_out(text)]
    tokenizer = train_tokenizer(train_texts)
    train = encode(tokenizer, train_texts)
    held_out = encode(tokenizer, [text for text in texts if corpus.is_held_out(text)])

    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**ARCHITECTURE))
    heads = MedusaHeads.untrained(FUTURE_HEADS, 1, ARCHITECTURE["hidden_size"], model.lm_head)
    optimizer = optimizer_for(model, heads)
    checkpoint, first = out / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        heads.load_state_dict(state["heads"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    log = (out / "train_log.jsonl").open("a")
    if first == 0:
        record = {
            "corpus_sha256": corpus.fingerprint(texts),
            "documents": len(train),
            "held_out_documents": len(held_out),
            "tokens": int(sum(map(len, train))),
            "parameters": model.num_parameters(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "seed": seed,
            "steps": steps,
            "future_steps": future_steps,
            "rows": rows,
            "peak_lr": peak_lr,
        }
        print(json.dumps(record), file=log, flush=True)

    started, recent = time.monotonic(), []
    last = steps + future_steps
    for step, batch in zip(range(first, last), batches(train, rows, seed, first), strict=False):
        future = step >= steps
        rate = (
            learning_rate(step - steps, future_steps, FUTURE_RATE * peak_lr)
            if future
            else learning_rate(step, steps, peak_lr)
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model.model(input_ids=batch[:, :-1]).last_hidden_state
            logits = model.lm_head(hidden).float()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            ahead = future_loss(heads, hidden, batch) if future else torch.zeros(())
        (loss + FUTURE_WEIGHT * ahead).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recent.append((loss.item(), ahead.item()))
        if (step + 1) % save_every == 0 or step + 1 == last:
            model.eval()
            record = {
                "step": step + 1,
                "train_loss": round(float(np.mean(recent, axis=0)[0]), 4),
                "future_loss": round(float(np.mean(recent, axis=0)[1]), 4),
                "held_out_loss": round(held_out_loss(model, held_out), 4),
                "seconds": round(time.monotonic() - started, 1),
            }
            model.train()
            recent.clear()
            print(json.dumps(record), file=log, flush=True)
            print(json.dumps(record), flush=True)
            state = {
                "model": model.state_dict(),
                "heads": heads.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step + 1,
            }
            torch.save(state, checkpoint.with_suffix(".tmp"))
            os.replace(checkpoint.with_suffix(".tmp"), checkpoint)

    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
