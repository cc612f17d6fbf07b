"""Training objectives (Cai et al. 2024, section 2.2), as sums over positions: whoever knows the whole batch divides."""

import torch
from torch.nn import functional

from treeopt.measure.states import UNKNOWN

DECAY = 0.8  # lambda_k = DECAY ** k


def cross_entropy_sum(logits: torch.Tensor, truths: torch.Tensor) -> torch.Tensor:
    """Sum of -log p(truth) over the rows of logits [P, V] whose truth [P] is known."""
    return functional.cross_entropy(logits.float(), truths, ignore_index=UNKNOWN, reduction="sum")


def distillation_sum(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Sum of KL(p_teacher || p_student) over the rows of two logits [P, V] (section 2.3.2)."""
    return functional.kl_div(
        student.float().log_softmax(-1), teacher.float().log_softmax(-1), reduction="sum", log_target=True
    )


def head_weights(heads: int, device: torch.device | None = None) -> torch.Tensor:
    """lambda_k [K] of L_1 = sum_k lambda_k * CE_k, equation 1."""
    return DECAY ** torch.arange(1, heads + 1, device=device)


def ramp(lambda_0: float, step: int, rising: int) -> float:
    """lambda_0 of L = L_LM + lambda_0 * L_1 at a step from 0: linear up to `lambda_0` over `rising` steps."""
    return lambda_0 * min(1.0, (step + 1) / max(rising, 1))
