"""The backbone's three calls against plain forward passes, and the models it refuses."""

import inspect

import pytest
import torch
from hypothesis import given, settings
from transformers import AutoConfig, GenerationConfig

from tests import tiny
from tests.strategies import trees
from treeopt.decode.buffers import TreeBuffers
from treeopt.errors import InputError, UnsupportedError
from treeopt.model import backbone as module
from treeopt.model.backbone import Backbone
from treeopt.model.sources import require_full_attention
from treeopt.tree import Tree

PROMPT = [4, 17, 9, 33, 2]


@torch.inference_mode()
def verify(model, tree, tokens, prompt=PROMPT):
    """Logits [N, V] of one pass over a tree whose nodes are these tokens."""
    buffers = TreeBuffers.build(tree, 99, model.vocabulary, model.device)
    cache = model.new_cache(1, len(prompt) + tree.size)
    model.prefill(prompt, cache)
    past = torch.ones(tree.size, len(prompt), dtype=torch.bool)
    mask = model.additive(torch.cat([past, buffers.visible], dim=1))[None, None]
    positions = len(prompt) + buffers.depths
    return model.logits(model.verify(torch.tensor([tokens]), positions[None], mask, cache))[0]


def path_tokens(tree, tokens, node):
    """The tokens from the root to a node."""
    return [tokens[tree.nodes.index(tree.nodes[node][:length])] for length in range(tree.depths[node] + 1)]


@pytest.mark.parametrize("family", tiny.FAMILIES)
@settings(max_examples=10)
@given(tree=trees(max_depth=3))
def test_each_node_scores_as_a_plain_pass_over_its_own_path(family, tree):
    model = tiny.backbone(family)
    tokens = [(11 * node + 3) % tiny.VOCABULARY for node in range(tree.size)]
    logits = verify(model, tree, tokens)
    for node in range(tree.size):
        ids = torch.tensor([PROMPT + path_tokens(tree, tokens, node)])
        with torch.inference_mode():
            expected = model.model(input_ids=ids).logits[0, -1]
        torch.testing.assert_close(logits[node], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_cousin_is_not_seen_and_a_parent_is(family):
    model = tiny.backbone(family)
    tree = Tree.from_choices([[0], [1], [0, 0], [1, 0]])
    node, parent, strangers = tree.nodes.index((0, 0)), tree.nodes.index((0,)), [(1,), (1, 0)]
    tokens = [5, 6, 7, 8, 9]
    before = verify(model, tree, tokens)[node]
    for stranger in strangers:
        changed = list(tokens)
        changed[tree.nodes.index(stranger)] = 40
        torch.testing.assert_close(verify(model, tree, changed)[node], before, rtol=0, atol=1e-5)
    for ancestor in (0, parent):
        changed = list(tokens)
        changed[ancestor] = 40
        assert (verify(model, tree, changed)[node] - before).abs().max() > 0.01


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("chunk", [1, 3, 5, 100])
def test_a_prompt_is_prefilled_in_chunks_as_in_one(family, chunk, monkeypatch):
    model = tiny.backbone(family)
    monkeypatch.setattr(module, "PREFILL_CHUNK", chunk)
    cache = model.new_cache(2, 8)
    with torch.inference_mode():
        hidden = model.prefill(PROMPT, cache, row=1)
        expected = model.states(torch.tensor([PROMPT]))[0, -1]
    assert cache.lengths == [0, len(PROMPT)]
    torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-5)


def test_what_a_backbone_says_of_itself():
    model = tiny.backbone()
    assert (model.vocabulary, model.hidden_size, model.context_limit) == (50, 32, 96)
    assert (str(model.device), model.dtype_name, model.end_tokens) == (
        "cpu",
        "float32",
        frozenset({tiny.END}),
    )
    shape = model.cache_shape
    assert (shape.layers, shape.key_heads, shape.key_size, shape.value_heads, shape.value_size) == (
        2,
        2,
        8,
        2,
        8,
    )
    assert tiny.backbone("gpt2").cache_shape.key_heads == 4
    assert tiny.cycle().end_tokens == frozenset()


@pytest.mark.parametrize(
    ("generation", "config", "tokenizer", "expected"),
    [(3, 1, 1, {3}), ([3, 4], 1, None, {3, 4}), (None, 1, 2, {1, 2}), (None, None, None, set())],
)
def test_end_tokens_are_the_generation_configurations_first(generation, config, tokenizer, expected):
    class Tokenizer:
        eos_token_id = tokenizer

    model = tiny.random_model(eos_token_id=config)
    model.generation_config = GenerationConfig(eos_token_id=generation)
    backbone = tiny.wrap(model)
    backbone.tokenizer = Tokenizer()
    assert backbone.end_tokens == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_passes_the_self_test(dtype):
    assert tiny.wrap(tiny.random_model(dtype=dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("mistral", {"sliding_window": 8}, r"tiny: sliding-window attention \(window 8\)"),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
            "sliding_attention",
        ),
        ("gemma3_text", {"sliding_window": 8, "head_dim": 8}, "tiny: layers of kind sliding_attention"),
        ("falcon", {"alibi": True}, "tiny: FalconForCausalLM"),
        ("granite", {"logits_scaling": 2.0}, "plain logits"),
        ("bert", {"is_decoder": False}, "tiny: BertLMHeadModel"),
    ],
)
def test_models_that_tree_decoding_would_get_wrong_are_refused_by_name(family, changes, message):
    model = tiny.random_model(family, **changes)
    with pytest.raises(UnsupportedError, match=message) as caught:
        tiny.wrap(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes", [{"use_sliding_window": False, "sliding_window": 8}, {"sliding_window": None}]
)
def test_a_window_that_is_switched_off_is_no_hindrance(changes):
    prompt = [(3 * i) % 48 + 2 for i in range(20)]
    model = tiny.wrap(tiny.random_model("qwen2", **changes))
    tree = Tree.from_choices([[0], [1]])
    assert verify(model, tree, [5, 6, 7], prompt).shape == (3, tiny.VOCABULARY)


def test_an_encoder_decoder_is_refused():
    config = AutoConfig.for_model("t5")
    with pytest.raises(UnsupportedError, match="some-t5: an encoder-decoder model"):
        require_full_attention(config, "some-t5")


def broken(model, argument, value):
    """The same model, whose layers get `value` for one argument, whatever they are asked to."""
    forward = model.base_model.forward

    def replaced(self=None, **arguments):
        if arguments.get(argument) is not None:
            arguments[argument] = value(arguments[argument])
        return forward(**arguments)

    replaced.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    model.base_model.forward = replaced
    return model


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("attention_mask", lambda mask: None),
        ("attention_mask", torch.zeros_like),
        ("position_ids", lambda positions: torch.arange(positions.shape[1])[None] + positions[:, :1]),
    ],
    ids=["causal instead of the tree's", "all visible", "siblings one after the other"],
)
def test_a_model_that_ignores_its_mask_or_positions_is_refused(argument, value):
    with pytest.raises(UnsupportedError, match="does not follow a custom attention mask, given positions"):
        tiny.wrap(broken(tiny.random_model(), argument, value))


def test_a_model_that_fails_on_a_tree_mask_is_refused():
    def fail(mask):
        raise ValueError("too many values to unpack")

    with pytest.raises(UnsupportedError, match=r"tiny: LlamaForCausalLM .*too many values to unpack"):
        tiny.wrap(broken(tiny.random_model(), "attention_mask", fail))


def test_a_model_without_a_head_is_refused():
    model = tiny.random_model()
    model.get_output_embeddings = lambda: None
    with pytest.raises(UnsupportedError, match="LlamaForCausalLM has no separate language-model head"):
        tiny.wrap(model)


def test_weights_that_are_not_numbers_are_refused():
    model = tiny.random_model()
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
    with pytest.raises(UnsupportedError, match="off by nan"):
        tiny.wrap(model)


def test_unknown_types_and_devices_are_refused(tmp_path):
    with pytest.raises(InputError, match="--dtype int8: unknown; use one of float32, bfloat16, float16"):
        Backbone.load(str(tmp_path), dtype="int8")
    with pytest.raises(InputError, match="--device abacus: not available"):
        Backbone.load(str(tmp_path), device="abacus")
