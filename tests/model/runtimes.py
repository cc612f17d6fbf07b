"""Small models of how runtimes load and apply Medusa heads: torch modules with their names, loaded strictly.

Written from the runtimes' sources, and not from treeopt's own table of layouts, which they are there to check.
"""

import json

import torch
from safetensors.torch import load_file
from torch import nn


class Block(nn.Module):
    """x + SiLU(W x + b), with the linear layer under its name in most runtimes."""

    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, states):
        return states + nn.functional.silu(self.linear(states))


class Layers(nn.Module):
    """vLLM's block: its layers by number."""

    def __init__(self, size, layers):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(size, size) for _ in range(layers)])

    def forward(self, states):
        for layer in self.layers:
            states = states + nn.functional.silu(layer(states))
        return states


class Runtime(nn.Module):
    """Heads in the form that `directory` is loaded into; `lm_head` is the backbone's, where they have none."""

    def __init__(self, directory, layout, model):
        super().__init__()
        config_file = directory / "config.json"
        config = json.loads(config_file.read_text()) if config_file.exists() else {}
        self.backbone = [model.lm_head]
        load = getattr(self, f"_{layout.replace('-', '_')}")
        tensors = load(directory, config, model.hidden_size, model.vocabulary)
        self.load_state_dict(tensors, strict=True)

    def _sequence(self, size, layers, ids, *, repeated=False):
        blocks = [Block(size)] * layers if repeated else [Block(size) for _ in range(layers)]
        return nn.Sequential(*blocks, *([nn.Linear(size, ids, bias=False)] if ids else []))

    def _numbered(self, tensors, heads, layers, size, ids, **options):
        self.heads = nn.ModuleList([self._sequence(size, layers, ids, **options) for _ in range(heads)])
        self.own = bool(ids)
        return {f"heads.{name}": tensor for name, tensor in tensors.items()}

    def _medusa(self, directory, config, size, ids):
        """Its loader is lenient; this one is not, so the file has as many heads as config.json says."""
        assert config["base_model_name_or_path"]
        tensors = torch.load(directory / "medusa_lm_head.pt", weights_only=True)
        heads, layers = config["medusa_num_heads"], config["medusa_num_layers"]
        return self._numbered(tensors, heads, layers, size, ids, repeated=True)

    def _medusa_v2(self, directory, config, size, ids):
        return self._medusa(directory, config, size, 0)

    def _tgi(self, directory, config, size, ids):
        """V1 where each head has an LM head, else V2, of one layer; a config with `architectures` is a model's."""
        assert "architectures" not in config and config["base_model_name_or_path"]
        tensors = load_file(directory / "medusa_lm_head.safetensors")
        heads, layers = config["medusa_num_heads"], config["medusa_num_layers"]
        own = f"0.{layers}.weight" in tensors
        assert own or layers == 1
        return self._numbered(tensors, heads, layers, size, ids if own else 0)

    def _lorax(self, directory, config, size, ids):
        float(config.get("version", 1))
        return self._tgi(directory, config, size, ids)

    def _trtllm(self, directory, config, size, ids):
        tensors = load_file(directory / "medusa_lm_head.safetensors")
        return self._numbered(tensors, config["num_medusa_heads"], config["medusa_num_layers"], size, ids)

    def _prefixed(self, tensors, prefix, heads, layers, size, ids):
        inside = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        assert all(name.startswith(prefix) for name in tensors)
        return self._numbered(inside, heads, layers, size, ids)

    def _modelopt(self, directory, config, size, ids):
        counts = config["medusa"]
        tensors = load_file(directory / "model.safetensors")
        heads, layers = counts["num_medusa_heads"], counts["num_medusa_layers"]
        return self._prefixed(tensors, "medusa_heads.", heads, layers, size, ids)

    def _mlc(self, directory, config, size, ids):
        assert config["model_type"] == "medusa" and "base_model_name_or_path" not in config
        assert (config["hidden_size"], config["vocab_size"]) == (size, ids)
        tensors = load_file(directory / "model.safetensors")
        heads, layers = config["medusa_num_heads"], config["medusa_num_layers"]
        return self._prefixed(tensors, "medusa_head.", heads, layers, size, ids)

    def _rtp_llm(self, directory, config, size, ids):
        """Numbers come from the medusa_config of its own, so they are taken from the names here."""
        assert not config
        tensors = load_file(directory / "medusa_head.safetensors")
        heads = 1 + max(int(name.split(".")[1]) for name in tensors)
        layers = 1 + max(int(name.split(".")[2]) for name in tensors if "linear" in name)
        return self._prefixed(tensors, "medusa_head.", heads, layers, size, ids)

    def _nxd(self, directory, config, size, ids):
        """Attributes `medusa_head_0`, ..., of one layer."""
        assert not config
        tensors = torch.load(directory / "medusa_heads.pt", weights_only=True)
        heads = len({name.split(".")[0] for name in tensors})
        self.own = True
        for h in range(heads):
            setattr(self, f"medusa_head_{h}", self._sequence(size, 1, ids))
        self._in_order = [f"medusa_head_{h}" for h in range(heads)]
        return tensors

    def _vllm(self, directory, config, size, ids):
        """Without `medusa_fc_bias` it has no biases; with `original_lm_head` it has one LM head."""
        assert config["model_type"] == "medusa" and config["medusa_fc_bias"] and config["hidden_size"] == size
        assert config["truncated_vocab_size"] == config["vocab_size"] == ids
        heads, layers = config["num_heads"], config["num_hidden_layers"]
        self.blocks = nn.ModuleList([Layers(size, layers) for _ in range(heads)])
        if config["original_lm_head"]:
            self.lm_head = nn.Linear(size, ids, bias=False)
        else:
            self.lm_heads = nn.ModuleList([nn.Linear(size, ids, bias=False) for _ in range(heads)])
        return load_file(directory / "model.safetensors")

    @torch.no_grad()
    def forward(self, hidden):
        """Logits [K, P, V]."""
        if hasattr(self, "blocks"):
            shared = getattr(self, "lm_head", None)
            lm_heads = [shared] * len(self.blocks) if shared is not None else self.lm_heads
            scored = [lm(block(hidden)) for lm, block in zip(lm_heads, self.blocks, strict=True)]
        else:
            names = getattr(self, "_in_order", None)
            heads = [getattr(self, name) for name in names] if names else self.heads
            finish = (lambda states: states) if self.own else self.backbone[0]
            scored = [finish(head(hidden)) for head in heads]
        return torch.stack(scored)
