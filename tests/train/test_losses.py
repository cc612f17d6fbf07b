"""The objectives against their formulas, written out, and the loss of a whole step against plain loops over tokens."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests import tiny
from tests.train.samples import RAGGED, fresh
from treeopt.model.adapter import attach_lora
from treeopt.search.ranks import UNKNOWN
from treeopt.train import chunks
from treeopt.train.data import Answers
from treeopt.train.losses import cross_entropy_sum, distillation_sum, head_weights, ramp
from treeopt.train.module import HeadsOnBackbone
from treeopt.train.trainer import HeadTrainer, LoopSettings

HEADS = 3
BATCH = RAGGED[:3]


def log_p(scores):
    """Log probabilities of a row of logits."""
    total = math.log(sum(math.exp(score) for score in scores))
    return [score - total for score in scores]


@given(st.integers(0, 6), st.integers(1, 5), st.integers(0, 999))
def test_the_cross_entropy_is_summed_over_known_truths(positions, vocabulary, seed):
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(positions, vocabulary, generator=random)
    truths = torch.randint(UNKNOWN, vocabulary, (positions,), generator=random)
    expected = -sum(
        log_p(row)[truth]
        for row, truth in zip(logits.tolist(), truths.tolist(), strict=True)
        if truth != UNKNOWN
    )
    assert float(cross_entropy_sum(logits, truths)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 999))
def test_the_distance_is_that_of_the_teacher_to_the_student(positions, vocabulary, seed):
    """KL(p_teacher || p_student) = sum of p_teacher * (log p_teacher - log p_student), which is not symmetric."""
    random = torch.Generator().manual_seed(seed)
    student, teacher = torch.randn(2, positions, vocabulary, generator=random) * 3
    expected = sum(
        math.exp(t) * (t - s)
        for ours, theirs in zip(student.tolist(), teacher.tolist(), strict=True)
        for s, t in zip(log_p(ours), log_p(theirs), strict=True)
    )
    assert float(distillation_sum(student, teacher)) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert float(distillation_sum(teacher, teacher)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_summed_in_float32(dtype):
    logits = torch.full((2, 8), 40.0, dtype=dtype)
    total = cross_entropy_sum(logits, torch.tensor([3, 5]))
    assert total.dtype == torch.float32 and float(total) == pytest.approx(2 * math.log(8), rel=1e-6)
    assert distillation_sum(logits, logits).dtype == torch.float32


def test_the_weight_of_head_k_is_a_power_of_its_number():
    assert head_weights(4).tolist() == pytest.approx([0.8, 0.64, 0.512, 0.4096])


@pytest.mark.parametrize(
    ("rising", "expected"), [(4, [0.05, 0.1, 0.15, 0.2, 0.2]), (1, [0.2] * 5), (0, [0.2] * 5)]
)
def test_lambda_0_rises_to_its_value(rising, expected):
    assert [ramp(0.2, step, rising) for step in range(5)] == pytest.approx(expected)


def pieces(joint, teacher, own):
    """A trained-looking backbone, heads with gradients, and the base model as it was."""
    model = fresh()
    heads = tiny.heads_for(model, HEADS, layers=2, own=own).requires_grad_(True)
    heads._project = [None if own else model.logits]
    model.model.requires_grad_(joint)
    if teacher:
        attach_lora(model.model, rank=4, dropout=0.0)
        with torch.no_grad():
            for name, parameter in model.model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(len(name)))
    return model, heads, fresh()


def loss_by_hand(model, heads, base, joint, teacher, lambda_0):
    """The whole step's loss, one token of one answer at a time, without a batch."""
    own: list[torch.Tensor] = []
    drafts: list[list[torch.Tensor]] = [[] for _ in range(HEADS)]
    for answer in BATCH:
        for offset, token in enumerate(answer.answer_ids):
            text = torch.tensor([answer.prompt_ids + answer.answer_ids[:offset]])
            with torch.set_grad_enabled(joint):
                state = model.model.base_model(input_ids=text).last_hidden_state[0, -1]
            log_student = model.lm_head(state).log_softmax(-1)
            if teacher:
                with torch.no_grad():
                    log_teacher = base.model(input_ids=text).logits[0, -1].log_softmax(-1)
                own.append((log_teacher.exp() * (log_teacher - log_student)).sum())
            else:
                own.append(-log_student[token])
            for k, draft in enumerate(drafts, start=1):
                if offset + k < len(answer.answer_ids):
                    x = state
                    for weight, bias in zip(heads.weight[:, k - 1], heads.bias[:, k - 1], strict=True):
                        x = x + torch.nn.functional.silu(weight @ x + bias)
                    logits = model.lm_head(x) if heads.lm_weight is None else heads.lm_weight[k - 1] @ x
                    draft.append(-logits.log_softmax(-1)[answer.answer_ids[offset + k]])
    means = [torch.stack(losses).mean() for losses in drafts]
    loss = lambda_0 * sum(0.8**k * mean for k, mean in enumerate(means, start=1))
    return loss + torch.stack(own).mean() if joint else loss


@pytest.mark.parametrize("rows_at_once", [2, 1000])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("joint", "teacher"), [(False, False), (True, False), (True, True)])
def test_the_loss_of_a_step_and_its_gradients(joint, teacher, own, rows_at_once, tmp_path, monkeypatch):
    monkeypatch.setitem(chunks.LOGITS_AT_ONCE, "cpu", rows_at_once * tiny.VOCABULARY)
    model, heads, base = pieces(joint, teacher, own)
    module = HeadsOnBackbone(model, heads, joint=joint, teacher=teacher)
    answers = Answers(BATCH, HEADS)
    trainer = HeadTrainer(
        module,
        LoopSettings(lambda_0=0.3, ramp=0.5),
        tmp_path,
        answers,
        answers,
        log=tmp_path / "log.jsonl",
        stage="joint",
        device=model.device,
    )
    trainer.state.max_steps, trainer.state.global_step = 10, 2  # the third of five rising steps
    batch = answers.collate(range(len(BATCH)))
    counts = (batch["truths"] != UNKNOWN).sum(1)
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    ours = trainer.compute_loss(module.train(), batch, num_items_in_batch=counts)
    found = torch.autograd.grad(ours, list(trained.values()), allow_unused=True)
    theirs = loss_by_hand(model, heads, base, joint, teacher, 0.3 * 3 / 5)
    expected = torch.autograd.grad(theirs, list(trained.values()), allow_unused=True)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for name, one, other in zip(trained, found, expected, strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    assert bool(frozen) == (not joint or teacher)
