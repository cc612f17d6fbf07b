"""The backbone: a transformers causal LM behind three calls: prefill, verify, commit.

`prefill` fills a row of the cache with a prompt, `verify` runs a tree of tokens through the model in one pass, and
the cache's own `commit` keeps the accepted ones. transformers renames arguments and changes cache internals between
minor versions; all of that is dealt with here and in `cache`.
"""

import inspect
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from treeopt.errors import InputError, UnsupportedError
from treeopt.model.adapter import merge_adapter
from treeopt.model.attention import NAME as GROUPED_ATTENTION
from treeopt.model.attention import stack_mask
from treeopt.model.cache import CacheProbe, CacheShape, TreeCache
from treeopt.model.packed import pack
from treeopt.model.sources import (
    Loaded,
    Quantisation,
    is_quantised,
    load_source,
    random_weights,
    require_full_attention,
)

PREFILL_CHUNK = 512  # prompt tokens of one forward pass; bounds the mask's memory
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Differentiate = Literal["nothing", "head", "everything"]
SELF_TEST_TOLERANCE = {torch.float32: 1e-3}  # of the largest logit
LOOSE = 5e-2  # the same, for half precision and quantised weights


class Backbone:
    """A causal language model with a tree-shaped forward pass.

    Shapes: tokens [B, P] int64, hidden states [B, P, H], logits [..., V], additive masks [B or 1, 1, P, S + P].
    """

    def __init__(self, loaded: Loaded) -> None:
        require_full_attention(loaded.model.config, loaded.name)
        self.model, self.tokenizer = loaded.model, loaded.tokenizer
        self.name, self.sha256 = loaded.name, loaded.sha256
        self.base = loaded.model.base_model
        if self.lm_head is None or self.base is loaded.model:
            raise UnsupportedError(
                f"{self.name}: {type(loaded.model).__name__} has no separate language-model head"
            )
        if getattr(loaded.model, "_supports_attention_backend", False):
            loaded.model.set_attn_implementation(GROUPED_ATTENTION)
        parameters = inspect.signature(self.base.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self.cache_shape = self._probe_cache()
        grouped = loaded.model.config._attn_implementation == GROUPED_ATTENTION
        self._groups = loaded.model.config.num_attention_heads // self.cache_shape.key_heads if grouped else 1
        self._self_test()

    @classmethod
    def load(
        cls,
        source: str | None = None,
        *,
        config: str | Path | None = None,
        adapter: str | Path | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        seed: int = 0,
        differentiate: Differentiate = "nothing",
        quantize: Quantisation | None = None,
    ) -> "Backbone":
        """Load `source` (see `sources.load_source`), or random weights in the shape of the file `config`.

        The LoRA `adapter`, a directory, is merged into the weights (see `adapter.merge_adapter`).
        On the CPU, weights through which nothing is to be differentiated are packed for inference: `differentiate`
        says what is, all the backbone or only its LM head. `quantize` loads it with bitsandbytes.
        """
        if dtype not in DTYPES:
            raise InputError(f"--dtype {dtype}: unknown; use one of {', '.join(DTYPES)}")
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"--device {device}: not available to torch {torch.__version__}") from error
        if config is not None:
            loaded = random_weights(Path(config), device=device, dtype=DTYPES[dtype], seed=seed)
        else:
            loaded = load_source(source, device=device, dtype=DTYPES[dtype], quantize=quantize)
        if adapter is not None:
            loaded = merge_adapter(loaded, adapter)
        if differentiate != "everything":
            pack(loaded.model if differentiate == "nothing" else loaded.model.base_model)
        return cls(loaded)

    def save(self, directory: Path) -> None:
        """Write model and tokenizer, for `load` to read. InputError when the place cannot be written."""
        try:
            self.model.save_pretrained(directory)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(directory)
        except OSError as error:
            raise InputError(f"{directory}: cannot be written ({error.strerror})") from error

    @property
    def lm_head(self) -> Any:
        """[..., H] to [..., V]: the module that the model has now, be it with LoRA around it."""
        return self.model.get_output_embeddings()

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' type."""
        return self.model.dtype

    @property
    def dtype_name(self) -> str:
        """The weights' type as `--dtype` spells it."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def hidden_size(self) -> int:
        """H."""
        return int(self.model.config.hidden_size)

    @property
    def vocabulary(self) -> int:
        """V."""
        return int(self.model.config.vocab_size)

    @property
    def context_limit(self) -> int:
        """The most positions a sequence may have."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2**31)

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """The ids that end an answer: the generation configuration's, else the model's and tokenizer's."""
        found: set[int] = set()
        for owner in (self.model.generation_config, self.model.config, self.tokenizer):
            ids = getattr(owner, "eos_token_id", None)
            found |= {ids} if isinstance(ids, int) else set(ids or ())
            if found and owner is self.model.generation_config:
                break
        return frozenset(found)

    def new_cache(self, batch: int, capacity: int) -> TreeCache:
        """An empty cache for `batch` rows of up to `capacity` tokens, trees included."""
        return TreeCache(self.cache_shape, batch, capacity)

    def states(self, tokens: torch.Tensor, **arguments: Any) -> torch.Tensor:
        """Last hidden states [B, P, H] of one forward pass; causal, without a cache, unless told otherwise."""
        if "cache" in arguments:
            arguments[self._cache_argument] = arguments.pop("cache")
        return self.base(input_ids=tokens, **arguments).last_hidden_state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., H] -> [..., V]."""
        return self.lm_head(hidden)

    def prefill(self, prompt: Sequence[int], cache: TreeCache, row: int = 0) -> torch.Tensor:
        """Put a prompt's tokens into an empty row of the cache; the last one's hidden state [H]."""
        assert cache.lengths[row] == 0 and prompt
        for low in range(0, len(prompt), PREFILL_CHUNK):
            chunk = torch.tensor([prompt[low : low + PREFILL_CHUNK]], device=self.device)
            width = chunk.shape[1]
            positions = torch.arange(low, low + width, device=self.device)
            causal = torch.ones(width, width, dtype=torch.bool, device=self.device).tril()
            visible = torch.cat([causal.new_ones(width, low), causal], dim=1)
            cache.open(row)
            hidden = self.states(
                chunk,
                attention_mask=self.additive(visible)[None, None],
                position_ids=positions[None],
                cache=cache,
                use_cache=True,
            )
            cache.lengths[row] += width
        return hidden[0, -1]

    def verify(
        self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: TreeCache
    ) -> torch.Tensor:
        """One pass over the trees of all rows: hidden states [B, N, H]. Nothing is kept until `cache.commit`."""
        cache.open()
        stacked = stack_mask(mask, self._groups)
        return self.states(
            tokens, attention_mask=stacked, position_ids=positions, cache=cache, use_cache=True
        )

    def additive(self, visible: torch.Tensor) -> torch.Tensor:
        """A boolean mask (True = may be attended to) as the number added to attention scores."""
        zeros = torch.zeros(visible.shape, dtype=self.dtype, device=visible.device)
        return zeros.masked_fill_(~visible, torch.finfo(self.dtype).min)

    def _probe_cache(self) -> CacheShape:
        """Learn the cache's shape from what the layers store for a single token."""
        probe = CacheProbe()
        try:
            with torch.inference_mode():
                self.states(
                    torch.zeros(1, 1, dtype=torch.long, device=self.device), cache=probe, use_cache=True
                )
        except (AttributeError, TypeError, NotImplementedError) as error:
            raise UnsupportedError(
                f"{self.name}: its layers do not use a standard key/value cache ({error})"
            ) from error
        shapes = set(probe.seen.values())
        if len(shapes) != 1 or sorted(probe.seen) != list(range(len(probe.seen))):
            raise UnsupportedError(
                f"{self.name}: its layers differ in key/value shape; tree decoding needs them alike"
            )
        key, value = shapes.pop()
        return CacheShape(len(probe.seen), key[0], key[1], value[0], value[1], self.dtype, self.device)

    @torch.inference_mode()
    def _self_test(self) -> None:
        """Two siblings behind one token must score as if each followed it alone, by the model's own logits.

        Catches, before anything is measured with it, a model that ignores the mask or the positions it is given
        and one whose logits are not its head's product with the hidden state.
        """
        ids = [3 % self.vocabulary, 5 % self.vocabulary, 7 % self.vocabulary]
        model = type(self.model).__name__
        try:
            siblings = self._score_siblings(ids)
        except (AttributeError, TypeError, ValueError, RuntimeError, IndexError) as error:
            raise UnsupportedError(
                f"{self.name}: {model} does not take a custom attention mask ({' '.join(str(error).split())})"
            ) from error
        paths = torch.tensor([[ids[0], ids[1]], [ids[0], ids[2]]], device=self.device)
        expected = self.model(input_ids=paths).logits[:, -1]
        scale = float(expected.abs().max())
        worst = float((siblings - expected).abs().max())
        exact = not is_quantised(self.model)
        tolerance = SELF_TEST_TOLERANCE.get(self.dtype, LOOSE) if exact else LOOSE
        if not worst <= tolerance * max(scale, 1e-6):
            raise UnsupportedError(
                f"{self.name}: {model} does not follow a custom attention mask, given positions or "
                f"plain logits (off by {worst:.2g} of {scale:.2g}); tree decoding would be wrong"
            )

    def _score_siblings(self, ids: Sequence[int]) -> torch.Tensor:
        """Logits [2, V] of the last two ids as alternatives behind the first."""
        cache = self.new_cache(1, 3)
        self.prefill(ids[:1], cache)
        tree = torch.tensor([ids[1:]], device=self.device)
        visible = torch.tensor([[True, True, False], [True, False, True]], device=self.device)
        positions = torch.ones_like(tree)
        return self.logits(self.verify(tree, positions, self.additive(visible)[None, None], cache))[0]
