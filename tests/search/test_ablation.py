"""Dense against sparse: the right trees, replayed, at the latencies of their own sizes."""

from typing import Any

import numpy as np
import pytest

from tests.strategies import rank_table
from treeopt.errors import InputError, MismatchError
from treeopt.search.ablation import dense_vs_sparse
from treeopt.search.baselines import dense
from treeopt.search.estimate import Independent
from treeopt.search.grow import grow
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay


def table(seed: int) -> RankTable:
    ranks = np.random.default_rng(seed).geometric(0.5, size=(400, 3)) - 1
    return rank_table(ranks, [50] * 8, width=6)


def profile(
    *sizes: int, batch: int = 1, contexts: tuple[int, ...] = (64,), **provenance: str
) -> LatencyProfile:
    rows = [
        {"batch": batch, "context": context, "tokens": size, "latency_ms": 10 * (1 + size + context / 64)}
        for context in contexts
        for size in (1, *sizes)
    ]
    return LatencyProfile.from_rows(rows, provenance=provenance)


FITTED, JUDGED = table(0), table(1)


def test_sparse_trees_are_the_growths_of_every_size_and_dense_ones_are_different_random_shapes():
    found = dense_vs_sparse(FITTED, JUDGED, dense=40, budget=30)
    sparse, shapes = (found[found["kind"] == kind] for kind in ("sparse", "dense"))
    growth = grow(Independent.of_ranks(FITTED), 30)
    assert sparse["tokens"].tolist() == list(range(1, 31))
    expected = [replay(JUDGED, growth.tree(size)).tokens_per_step for size in range(1, 31)]
    assert sparse["tokens_per_step"].tolist() == pytest.approx(expected)
    assert set(sparse["name"]) == {"independent"}
    assert len(shapes) == len(set(shapes["name"])) == 40
    for name, tokens, rate in shapes[["name", "tokens", "tokens_per_step"]].itertuples(
        index=False, name=None
    ):
        tree = dense([int(width) for width in name.split("x")])
        assert tree.size == tokens <= 30
        assert rate == pytest.approx(replay(JUDGED, tree).tokens_per_step)
    assert found["tokens_per_s"].isna().all()


def test_token_per_s_is_over_the_batch_and_known_at_timed_sizes_alone():
    found = dense_vs_sparse(FITTED, JUDGED, profile(3, 7, 200, batch=4), dense=20, budget=30, batch=4)
    timed = found.dropna(subset=["tokens_per_s"])
    assert set(timed["tokens"]) == {1, 3, 7}
    latency = 10 * (2 + timed["tokens"])
    assert timed["tokens_per_s"].tolist() == pytest.approx(
        (4000 * timed["tokens_per_step"] / latency).tolist()
    )
    plain = timed[timed["tokens"] == 1]
    assert plain["tokens_per_s"].tolist() == pytest.approx([4000 / 30])


def test_dense_trees_of_timed_sizes_are_added():
    without = dense_vs_sparse(FITTED, JUDGED, dense=20, budget=100)
    found = dense_vs_sparse(FITTED, JUDGED, profile(10, 11, 13, 16), dense=20, budget=100)
    first, more = (frame[frame["kind"] == "dense"] for frame in (without, found))
    assert more["name"].tolist()[: len(first)] == first["name"].tolist()
    assert set(more["tokens"].tolist()[len(first) :]) <= {10, 11, 13, 16}
    assert more["tokens_per_s"].count() > first["tokens"].isin({10, 11, 13, 16}).sum()


def test_another_estimator_and_seed():
    joint = dense_vs_sparse(FITTED, JUDGED, dense=5, budget=10, estimator="joint", seed=1)
    assert set(joint.loc[joint["kind"] == "sparse", "name"]) == {"joint"}
    assert not joint.equals(dense_vs_sparse(FITTED, JUDGED, dense=5, budget=10, estimator="joint", seed=2))


def test_the_context_is_the_only_one_or_is_named():
    two = profile(4, contexts=(64, 128))
    at_64, at_128 = (
        dense_vs_sparse(FITTED, JUDGED, two, dense=5, budget=8, context=context)["tokens_per_s"].sum()
        for context in (64, 128)
    )
    assert at_64 > at_128
    cases: list[tuple[LatencyProfile, dict[str, Any], str]] = [
        (two, {}, r"no context was named at batch 1; name one of 64, 128"),
        (two, {"context": 65}, r"context 65 was not profiled at batch 1; name one of 64, 128"),
        (two, {"batch": 2}, r"at batch 2; profile that batch"),
    ]
    for latency, options, words in cases:
        with pytest.raises(InputError, match=words):
            dense_vs_sparse(FITTED, JUDGED, latency, dense=5, budget=8, **options)


def test_latencies_of_another_model_are_refused():
    of_one = RankTable(**{**vars(JUDGED), "provenance": {"model_sha256": "one"}})
    with pytest.raises(MismatchError, match="model_sha256"):
        dense_vs_sparse(FITTED, of_one, profile(4, model_sha256="another"), dense=5, budget=8)
