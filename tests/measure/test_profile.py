"""Profiling: what is timed and where sizes are added. No test asks how long anything took."""

import pytest
import torch

from tests import tiny
from treeopt.decode import Engine
from treeopt.errors import InputError
from treeopt.measure import profile as module
from treeopt.measure.profile import SIZES, StepClock, profile, typical_tree
from treeopt.search.latency import LatencyProfile

PARTS = {"verify", "heads", "accept"}


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_a_typical_tree_has_the_size_asked_for(heads):
    for size in (*SIZES, 256):
        tree = typical_tree(heads, size)
        assert tree.size == size and tree.depth <= heads


def test_every_setting_size_and_part_is_sampled():
    model = tiny.backbone()
    rows = profile(
        model,
        tiny.heads_for(model),
        batches=(1, 2),
        contexts=(5, 9),
        sizes=(8, 1, 3, 3),
        repeats=4,
        refine=False,
    )
    counts: dict[tuple, int] = {}
    for row in rows:
        key = tuple(row[name] for name in ("batch", "context", "tokens", "part"))
        counts[key] = counts.get(key, 0) + 1
    expected = {(b, c, 1, "plain") for b in (1, 2) for c in (5, 9)}
    expected |= {(b, c, n, part) for b in (1, 2) for c in (5, 9) for n in (3, 8) for part in {"step"} | PARTS}
    assert set(counts) == expected and set(counts.values()) == {4}
    found = LatencyProfile.from_rows(rows)
    assert found.settings() == [(1, 5), (1, 9), (2, 5), (2, 9)] and found.sizes(1, 5) == [3, 8]


def test_the_parts_add_up_to_the_step():
    model = tiny.backbone()
    rows = profile(model, tiny.heads_for(model), contexts=(5,), sizes=(1, 4), repeats=3, refine=False)
    steps = [row["latency_ms"] for row in rows if row["part"] == "step"]
    parts = [row["latency_ms"] for row in rows if row["part"] in PARTS]
    assert len(parts) == 3 * len(steps)
    for number, step in enumerate(steps):
        assert step == pytest.approx(sum(float(part) for part in parts[3 * number : 3 * number + 3]))
        assert float(step) > 0


def test_each_stretch_starts_from_the_same_cache(monkeypatch):
    model, starts = tiny.backbone(), []
    step = Engine.step

    def noted(self, state, *mark):
        starts.append((tuple(state.cache.lengths), tuple(state.roots)))
        return step(self, state, *mark)

    monkeypatch.setattr(Engine, "step", noted)
    rounds = 2
    profile(
        model,
        tiny.heads_for(model),
        batches=(2,),
        contexts=(6,),
        sizes=(1, 4, 8),
        repeats=rounds * module.STRETCH,
        refine=False,
    )
    steps = 1 + module.STRETCH
    assert len(starts) == 3 * (module.WARM_UP + rounds) * steps
    assert set(starts[::steps]) == {((6, 6), starts[0][1])}
    assert all(min(lengths) > 6 for i, (lengths, _) in enumerate(starts) if i % steps)


def fake_latencies(monkeypatch, latency):
    """Time steps by a formula: `latency(tokens)` milliseconds."""
    monkeypatch.setattr(
        module._Bench, "_stretch", lambda self, size: [{"verify": latency(size), "accept": 0.0}]
    )


def test_sizes_are_added_where_a_cliff_is(monkeypatch):
    fake_latencies(monkeypatch, lambda size: 10.0 if size <= 21 else 15.0)
    model = tiny.backbone()
    rows = profile(model, tiny.heads_for(model), contexts=(5,), sizes=(1, 16, 32, 48), repeats=2)
    assert sorted({row["tokens"] for row in rows}) == [1, 16, 20, 21, 22, 24, 32, 48]


def test_sizes_are_not_added_where_neighbours_are_alike(monkeypatch):
    fake_latencies(monkeypatch, lambda size: 10.0 + 0.03 * size)
    model = tiny.backbone()
    rows = profile(model, tiny.heads_for(model), contexts=(5,), sizes=(1, 16, 32), repeats=2)
    assert sorted({row["tokens"] for row in rows}) == [1, 16, 32]


def test_rounds_are_in_random_order_and_the_same_for_a_seed(monkeypatch):
    order: list[int] = []

    def noted(self, size):
        order.append(size)
        return [{"verify": 1.0}]

    monkeypatch.setattr(module._Bench, "_stretch", noted)
    model, orders = tiny.backbone(), []
    for seed in (1, 1, 2):
        order.clear()
        profile(
            model,
            tiny.heads_for(model),
            contexts=(5,),
            sizes=(1, 2, 3, 4),
            repeats=6 * module.STRETCH,
            refine=False,
            seed=seed,
        )
        rounds = order[4 * module.WARM_UP :]
        assert all(sorted(rounds[i : i + 4]) == [1, 2, 3, 4] for i in range(0, 24, 4))
        orders.append(rounds)
    assert (
        orders[0] == orders[1] != orders[2]
        and len({tuple(orders[0][i : i + 4]) for i in range(0, 24, 4)}) > 1
    )


def test_a_context_that_does_not_fit_is_refused():
    model = tiny.backbone()
    with pytest.raises(InputError, match=f"--context 95: llama takes {tiny.LIMIT} tokens in all"):
        profile(model, tiny.heads_for(model), contexts=(95,), sizes=(1,), repeats=1)


def test_a_clock_adds_up_what_is_marked_twice():
    times = iter([0.0, 1.0, 3.0, 6.0])
    clock = StepClock(torch.device("cpu"))
    clock._marks, clock._now = [("", next(times))], lambda: next(times)
    for part in ("accept", "verify", "accept"):
        clock.mark(part)
    assert clock.parts() == {"accept": 4000.0, "verify": 2000.0}
