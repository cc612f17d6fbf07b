"""Medusa-2: what is trained in which stage, how fast, and how near the backbone stays to itself."""

import pytest
import torch

from tests.train.samples import RAGGED, fresh, log_of, medusa2, note_losses, ragged, weights_of
from treeopt.errors import InputError, UnsupportedError
from treeopt.model.adapter import attach_lora, save_adapter
from treeopt.model.backbone import Backbone
from treeopt.train.medusa2 import LoraSettings
from treeopt.train.module import adapter_off
from treeopt.train.run import fit

LORA = LoraSettings(rank=4, dropout=0.0)
TEXT = torch.tensor([[3, 9, 4, 17, 30, 8]])


@pytest.fixture
def before_joint(monkeypatch):
    """The backbone's weights when the joint stage begins, by name without the adapter's wrapping."""
    found = {}

    def noted(module, *args, **kwargs):
        assert module.joint
        found.update(plain(module.model))
        fit(module, *args, **kwargs)

    monkeypatch.setattr("treeopt.train.medusa2.fit", noted)
    return found


def plain(model):
    """The weights of a model, but for an adapter's."""
    return {
        name.replace(".base_layer", ""): value.clone()
        for name, value in model.state_dict().items()
        if "lora_" not in name
    }


@pytest.mark.parametrize("lora", [LORA, None])
def test_the_backbone_is_left_alone_until_both_are_trained(lora, before_joint, tmp_path):
    model, base = fresh(), plain(fresh().model)
    heads, adapter = medusa2(model, RAGGED, tmp_path, lora=lora, learning_rate=1e-2)
    assert before_joint.keys() == base.keys()
    assert all(torch.equal(before_joint[name], base[name]) for name in base)
    after = plain(model.model)
    if lora is None:
        assert adapter is None and not any(torch.equal(after[name], base[name]) for name in base)
    else:
        assert all(torch.equal(after[name], base[name]) for name in base)
        trained = [value for name, value in model.model.state_dict().items() if "lora_B" in name]
        assert len(trained) == 2 * 7 + 1 and all(value.abs().sum() > 0 for value in trained)
    assert not any(p.requires_grad for p in [*model.model.parameters(), *heads.parameters()])
    assert not model.model.training and not heads.training
    assert [record["stage"] for record in log_of(tmp_path)[1]] == ["warmup"] * 5 + ["joint"] * 5


def test_tied_weights_stay_tied_where_all_are_trained(tmp_path):
    model = fresh(tie_word_embeddings=True)
    medusa2(model, RAGGED, tmp_path, lora=None, learning_rate=1e-2)
    assert model.lm_head.weight is model.model.get_input_embeddings().weight
    assert not torch.equal(model.lm_head.weight, fresh(tie_word_embeddings=True).lm_head.weight)


def test_the_model_with_its_adapter_off_is_the_base_model(tmp_path):
    model = fresh()
    _, adapter = medusa2(model, RAGGED, tmp_path, lora=LoraSettings(rank=4), learning_rate=1e-2)
    with torch.inference_mode():
        expected, adapted = fresh().model(input_ids=TEXT).logits, model.model(input_ids=TEXT).logits
        with adapter_off(model.model):
            off = model.model(input_ids=TEXT).logits
        with adapter.disable_adapter():
            disabled = model.model(input_ids=TEXT).logits
        again = model.model(input_ids=TEXT).logits
    assert torch.equal(off, expected) and torch.equal(disabled, expected)
    assert torch.equal(again, adapted) and (adapted - expected).abs().max() > 1e-3


@pytest.mark.parametrize("own", [False, True])
def test_heads_and_adapter_are_loaded_as_they_were_trained(own, tmp_path):
    """Heads share the adapted LM head, which is merged where the adapter is loaded."""
    fresh().save(tmp_path / "base")
    model = Backbone.load(str(tmp_path / "base"), differentiate="everything")
    shape = {"own_lm_head": own}
    heads, adapter = medusa2(model, RAGGED, tmp_path / "training", shape, lora=LORA, learning_rate=1e-2)
    save_adapter(adapter, tmp_path / "adapter", base_model="base", base_sha256=model.sha256)
    merged = Backbone.load(str(tmp_path / "base"), adapter=tmp_path / "adapter")
    with torch.inference_mode():
        expected, found = model.states(TEXT), merged.states(TEXT)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        ours = heads(expected[0])
        heads._project = [None if own else merged.logits]
        torch.testing.assert_close(heads(found[0]), ours, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("lora", [LORA, None])
def test_the_heads_learn_at_a_rate_of_their_own(lora, tmp_path, monkeypatch):
    rates = []
    step = torch.optim.AdamW.step

    def noted(self, *arguments, **options):
        groups = [(len(group["params"]), group["lr"], group["weight_decay"]) for group in self.param_groups]
        rates.append(groups)
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    settings = {"epochs": 2, "learning_rate": 1e-3, "heads_lr_factor": 4.0}
    medusa2(fresh(), RAGGED, tmp_path, lora=lora, warmup=False, **settings)
    for (backbone, rate, decay), (heads, heads_rate, heads_decay) in rates:
        assert backbone == (2 * (2 * 7 + 1) if lora else 2 * 9 + 3) and heads == 2
        assert heads_rate == pytest.approx(4 * rate) and decay == heads_decay == 0
    assert len(rates) == 6 and max(rate for (_, rate, _), _ in rates) == 1e-3


def test_the_ramp_is_seen_in_the_loss(tmp_path, monkeypatch):
    """With next to no learning, the loss of step s is L_LM + lambda_0 min(1, s / 4) L_1."""
    seen = note_losses(monkeypatch)
    settings = {"epochs": 10, "batch_size": 8, "learning_rate": 1e-12, "lambda_0": 0.5, "ramp": 0.4}
    medusa2(fresh(), RAGGED, tmp_path, {"held_out": 0}, lora=LORA, warmup=False, **settings)
    record = log_of(tmp_path)[1][0]
    weighted = sum(0.8**k * loss for k, loss in enumerate(record["train_loss"], start=1))
    expected = [record["train_lm_loss"] + 0.5 * min(1, step / 4) * weighted for step in range(1, 11)]
    assert seen == pytest.approx(expected, rel=1e-5)


def test_self_distillation_starts_from_no_distance_and_stays_nearer(tmp_path):
    """At a learning rate that ruins the backbone where it is fitted to answers that are not its own."""
    distances = {}
    for self_distill in (True, False):
        directory = tmp_path / str(self_distill)
        settings = {"epochs": 6, "learning_rate": 2e-2, "self_distill": self_distill}
        medusa2(fresh(), RAGGED, directory, lora=LORA, warmup=False, **settings)
        facts, records = log_of(directory)
        assert facts["self_distill"] is self_distill and facts["lora"]["rank"] == 4
        assert records[0]["step"] == 0 and records[0]["stage"] == "joint"
        held_out = [r["held_out_lm_loss"] for r in records if "held_out_lm_loss" in r]
        distances[self_distill] = abs(held_out[-1] - held_out[0])
        first = next(r["train_lm_loss"] for r in records if "train_lm_loss" in r)
        assert first == pytest.approx(0, abs=1e-5) if self_distill else first > 1
    assert distances[True] < 0.5 * distances[False]


def test_without_a_warm_up_there_is_one_stage(tmp_path):
    medusa2(fresh(), RAGGED, tmp_path, lora=LORA, warmup=False)
    facts, records = log_of(tmp_path)
    assert facts["warmup"] is None and {record["stage"] for record in records} == {"joint"}
    assert not (tmp_path / "states.bin").exists() and not (tmp_path / "warmup").exists()


@pytest.mark.parametrize("self_distill", [False, True])
def test_dropout_is_of_the_student_alone(self_distill, tmp_path, monkeypatch):
    """The adapter's dropout does nothing while the adapter is a no-op, so in the first step none is seen."""
    seen = note_losses(monkeypatch)
    for dropout in (0.0, 0.9):
        lora = LoraSettings(rank=4, dropout=dropout)
        settings = {"self_distill": self_distill, "warmup": False, "learning_rate": 1e-2, "epochs": 2}
        medusa2(fresh(), RAGGED, tmp_path / str(dropout), lora=lora, **settings)
    assert seen[0] == pytest.approx(seen[6], rel=1e-6) and seen[5] != pytest.approx(seen[11], rel=1e-6)


@pytest.mark.parametrize(
    ("lora", "self_distill", "device", "reason"),
    [
        (LORA, True, "cpu", "quantised, so the teacher would be the rounded model"),
        (LORA, False, "cpu", "quantised, and bitsandbytes has no gradients for the CPU"),
        (None, False, "cuda", "quantised weights cannot be trained; drop --full"),
    ],
)
def test_a_quantised_backbone_is_refused_with_the_reason(
    lora, self_distill, device, reason, tmp_path, monkeypatch
):
    model = fresh()
    model.model.register_buffer("qweight", torch.zeros(1, dtype=torch.int32))
    monkeypatch.setattr(Backbone, "device", torch.device(device))
    with pytest.raises(UnsupportedError, match=f"llama: {reason}"):
        medusa2(model, RAGGED, tmp_path / "training", lora=lora, self_distill=self_distill)
    assert not (tmp_path / "training").exists()


def test_self_distillation_needs_an_adapter(tmp_path):
    with pytest.raises(InputError, match="--self-distill needs an adapter"):
        medusa2(fresh(), RAGGED, tmp_path, lora=None, self_distill=True)


def test_one_seed_one_result(tmp_path):
    """Whatever the random state it is started in."""
    found = []
    for number in range(2):
        torch.manual_seed(number)
        model = fresh()
        heads, _ = medusa2(model, RAGGED, tmp_path / str(number), lora=LoraSettings(rank=2), warmup=False)
        found.append(weights_of(heads) | weights_of(model.model))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_the_loss_on_held_out_text_is_logged_before_and_after(tmp_path):
    made = ragged([(2, 6 + n % 3) for n in range(10)])
    model = fresh()
    medusa2(model, made, tmp_path, {"held_out": 0.3}, lora=LORA, learning_rate=1e-2)
    records = [r for r in log_of(tmp_path)[1] if "held_out_lm_loss" in r]
    assert [(r["stage"], r["step"]) for r in records] == [
        ("warmup", 0),
        ("warmup", 4),
        ("joint", 0),
        ("joint", 4),
    ]
    losses = [r["held_out_lm_loss"] for r in records]
    assert losses[0] == losses[1] == losses[2] != losses[3]


def test_an_attached_adapter_alone_changes_nothing():
    model = fresh()
    with torch.inference_mode():
        expected = model.model(input_ids=TEXT).logits
        attach_lora(model.model, rank=4)
        assert torch.equal(model.model(input_ids=TEXT).logits, expected)
