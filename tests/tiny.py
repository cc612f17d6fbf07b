"""Models small enough for slow twins: random ones of three families, and Cycle, which counts modulo seven."""

import math
from functools import cache

import torch
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from treeopt.decode import GREEDY, PositionNoise
from treeopt.model.backbone import Backbone
from treeopt.model.heads import MedusaHeads
from treeopt.model.sources import Loaded
from treeopt.tree import Tree

torch.set_num_threads(1)  # more only get in each other's way at this size

VOCABULARY, HIDDEN, LIMIT, END = 50, 32, 96, 1
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LIMIT,
    "eos_token_id": END,
    "bos_token_id": 0,
    "pad_token_id": 0,
}
FAMILIES = {
    "llama": SHAPE,
    "qwen2": SHAPE,  # biases on queries, keys and values
    "gpt2": {
        "vocab_size": VOCABULARY,
        "n_embd": HIDDEN,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": LIMIT,
        "tie_word_embeddings": False,
        "eos_token_id": END,
        "bos_token_id": 0,
    },
}
SAMPLE_TREE = Tree.from_choices([[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 0, 12]])
CYCLE = 7


def random_model(family="llama", dtype=torch.float32, **changes):
    """A transformers model with weights so large that its greedy text varies and depends on all that came before."""
    config = AutoConfig.for_model(family, **(FAMILIES.get(family, SHAPE) | changes))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim == 2:
                    parameter.mul_(4 if parameter.shape[0] in (VOCABULARY, LIMIT) else 16)
                elif name.endswith("bias"):
                    parameter.normal_(std=0.1)
    return model.eval()


def wrap(model, name="tiny", sha256="tiny"):
    """A backbone around a model that no file holds."""
    return Backbone(Loaded(model, None, name, sha256))


@cache
def backbone(family="llama"):
    """Shared by all tests, none of which changes it."""
    return wrap(random_model(family), family)


def heads_for(model, heads=3, layers=1, own=False, seed=2):
    """Random heads that repeat the LM head closely enough to have guesses accepted."""
    random = torch.Generator().manual_seed(seed)
    size = model.hidden_size
    weight = torch.randn(layers, heads, size, size, generator=random) * 0.05
    bias = torch.randn(layers, heads, size, generator=random) * 0.05
    lm_weight = None
    if own:
        lm_weight = model.lm_head.weight.detach() + 0.02 * torch.randn(
            heads, model.vocabulary, size, generator=random
        )
    project = None if own else model.lm_head
    heads = MedusaHeads(weight, bias, lm_weight, project).to(device=model.device, dtype=model.dtype)
    return heads.requires_grad_(False).eval()


@torch.no_grad()
def shaken(model, seed=3):
    """Stands for training: adds random values to whatever may be trained."""
    random = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.add_(torch.randn(parameter.shape, generator=random) * 0.05)
    return model


@cache
def cycle(end=None):
    """A Llama whose next token is (t + 1) mod 7, by weights set by hand; `end` ends an answer."""
    shape = SHAPE | {
        "vocab_size": CYCLE,
        "hidden_size": 8,
        "intermediate_size": 8,
        "eos_token_id": end,
        "bos_token_id": None,
        "pad_token_id": None,
        "tie_word_embeddings": False,
    }
    model = random_model("llama", **shape)
    tokens = torch.arange(CYCLE)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.zero_()
        model.model.embed_tokens.weight[tokens, tokens] = 1
        model.lm_head.weight.zero_()
        model.lm_head.weight[(tokens + 1) % CYCLE, tokens] = 1
    return wrap(model, "cycle", "cycle")


def cycle_heads(heads=4, wrong=()):
    """Heads with LM heads of their own that are always right, but for the heads numbered in `wrong`."""
    tokens = torch.arange(CYCLE)
    lm_weight = torch.zeros(heads, CYCLE, 8)
    for head in range(1, heads + 1):
        lm_weight[head - 1, (tokens + 1 + head + (head in wrong)) % CYCLE, tokens] = 1
    return MedusaHeads(torch.zeros(1, heads, 8, 8), torch.zeros(1, heads, 8), lm_weight).requires_grad_(False)


def text(low=2, high=VOCABULARY - 1, min_size=1, max_size=12):
    """Hypothesis: the token ids of a prompt."""
    return st.lists(st.integers(low, high), min_size=min_size, max_size=max_size)


def filtered(scores, rule):
    """Top-k and then top-p, token by token: each is kept by how many are better, and by their mass."""
    values = scores.tolist()
    if rule.top_k:
        values = [v if sum(w > v for w in values) < rule.top_k else -math.inf for v in values]
    weights = [math.exp(v - max(values)) for v in values]
    total = sum(weights)
    kept = [sum(w for w in weights if w > weight) / total < rule.top_p for weight in weights]
    return torch.tensor([v if keep else -math.inf for v, keep in zip(values, kept, strict=True)])


@torch.inference_mode()
def plain_by_hand(model, prompt, limit, name="", rule=GREEDY, seed=0):
    """Plain decoding, spelt out: the whole text through the bare model again for every token."""
    noise = PositionNoise(seed, model.vocabulary)
    answer: list[int] = []
    while len(answer) < limit and not (answer and answer[-1] in model.end_tokens):
        logits = model.model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, -1]
        if rule.temperature:
            logits = filtered(logits / rule.temperature, rule) + torch.from_numpy(
                noise.row(name, len(answer))
            )
        answer.append(int(logits.argmax()))
    return answer
