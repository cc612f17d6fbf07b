"""Drawing and accepting, on numbers that a reader can check and against rules written out."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests import tiny
from tests.strategies import trees
from treeopt.decode import GREEDY, Engine, PositionNoise, Sampled, Typical
from treeopt.decode.accept import follow
from treeopt.decode.buffers import TreeBuffers
from treeopt.search.baselines import chain, dense
from treeopt.tree import ROOT, Tree

CPU = torch.device("cpu")
NAN = math.nan


def build(tree, vocabulary=100):
    return TreeBuffers.build(tree, 4, vocabulary, CPU)


def logits_of(p):
    return torch.tensor(p).log()


def test_greedy_drawing_takes_the_first_of_equals():
    assert GREEDY.draw(torch.tensor([[1.0, 3.0, 3.0], [2.0, 1.0, 0.0]])).tolist() == [1, 0]


def test_noise_decides_at_a_temperature():
    logits, noise = torch.tensor([1.0, 2.0]), torch.tensor([1.5, 0.0])
    assert Sampled(1.0).draw(logits, noise) == 0
    assert Sampled(0.5).draw(logits, noise) == 1


def test_rules_have_the_names_that_options_give_them():
    assert [rule.name for rule in (GREEDY, Sampled(0.7), Typical(0.7))] == ["greedy", "sampled", "typical"]


@given(trees(), st.data())
def test_the_accepted_path_is_the_longest_that_the_draws_allow(tree, data):
    token = st.lists(st.integers(0, 4), min_size=tree.size, max_size=tree.size)
    tokens, drawn = data.draw(token), data.draw(token)
    for parent in range(tree.size):
        for place, node in enumerate(tree.children(parent)):
            tokens[node] = (tokens[parent] + place) % 5  # a head's guesses differ

    def accepted(node):
        parent = tree.parents[node]
        return node == 0 or (tokens[node] == drawn[parent] and accepted(parent))

    expected = max((node for node in range(tree.size) if accepted(node)), key=lambda node: tree.depths[node])
    path = follow([tree.children(node) for node in range(tree.size)], tokens, drawn)
    assert [tree.nodes[node] for node in path] == [tree.nodes[expected][:n] for n in range(len(path))]
    assert path[-1] == expected


# Filters


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (Sampled(1.0, top_k=2), [0, 1]),
        (Sampled(1.0, top_k=9), [0, 1, 2, 3]),
        (Sampled(1.0, top_p=0.5), [0]),
        (Sampled(1.0, top_p=0.51), [0, 1]),
        (Sampled(1.0, top_p=0.9), [0, 1, 2, 3]),
        (Sampled(1.0, top_p=1e-9), [0]),
        (Sampled(1.0, top_p=0.6, top_k=2), [0]),  # .5 / .8 of what top-k leaves
        (Sampled(1.0, top_p=0.63, top_k=2), [0, 1]),
        (Sampled(0.1, top_p=0.98), [0]),
        (Sampled(100.0, top_p=0.98), [0, 1, 2, 3]),
    ],
)
def test_filters_keep_the_best_tokens(rule, kept):
    scores = rule.scores(logits_of([0.5, 0.3, 0.1, 0.1]), torch.zeros(4))
    assert (scores > -torch.inf).nonzero()[:, 0].tolist() == kept


rules = st.builds(
    Sampled,
    st.sampled_from([0.5, 1.0, 3.0]),
    st.sampled_from([0.05, 0.3, 0.75, 0.99, 1.0]),
    st.integers(0, 7),
)


@given(rules, st.lists(st.lists(st.integers(-3, 3), min_size=6, max_size=6), min_size=1, max_size=4))
def test_filtering_is_token_by_token_with_ties_kept_together(rule, rows):
    logits = torch.tensor(rows, dtype=torch.float32) / 3 * rule.temperature
    found = rule.scores(logits, torch.zeros_like(logits))
    for row, scores in zip(logits / rule.temperature, found, strict=True):
        torch.testing.assert_close(scores, tiny.filtered(row, rule))


@given(rules, st.integers(0, 99))
def test_filters_are_those_of_transformers(rule, seed):
    from transformers import LogitsProcessorList, TopKLogitsWarper, TopPLogitsWarper

    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(seed))
    theirs = LogitsProcessorList([TopPLogitsWarper(rule.top_p)])
    if rule.top_k:
        theirs.insert(0, TopKLogitsWarper(rule.top_k))
    expected = theirs(torch.empty(3, 0), logits / rule.temperature)  # type: ignore[arg-type]
    torch.testing.assert_close(rule.scores(logits, torch.zeros(3, 40)), expected)


@given(rules, st.integers(0, 2**16), st.sampled_from([1.0, 10.0]), st.booleans())
def test_drawing_from_a_nucleus_sorts_nothing_and_draws_the_same(rule, seed, loud, ties):
    """Loud noise draws far outside the nucleus, so that several draws are turned down."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, 3, 30, generator=random) * 2
    logits = logits.round() if ties else logits
    noise = torch.randn(2, 3, 30, generator=random) * loud
    expected = [
        (tiny.filtered(row / rule.temperature, rule) + extra).argmax()
        for row, extra in zip(logits.flatten(0, 1), noise.flatten(0, 1), strict=True)
    ]
    assert rule.draw(logits, noise).flatten().tolist() == [int(token) for token in expected]
    assert rule.draw(logits[0, 0], noise[0, 0]) == expected[0]


def test_the_edge_of_a_filter_is_how_near_it_is_to_keeping_others():
    p = logits_of([0.5, 0.3, 0.15, 0.05])
    assert GREEDY.edge(p) == Sampled(1.0).edge(p) == torch.inf
    assert Sampled(1.0, top_k=2).edge(p) == pytest.approx(math.log(2))
    assert Sampled(0.5, top_k=2).edge(p) == pytest.approx(2 * math.log(2))
    assert Sampled(1.0, top_p=0.79).edge(p) == pytest.approx(0.01, abs=1e-6)
    assert Sampled(1.0, top_k=4).edge(p) == torch.inf


# Check 20: the distribution of what is emitted


def test_several_branches_do_not_shift_the_distribution():
    """Paths a-b, a-c, a-d and e-f with p(a) = p(e) = .5: a is emitted half the time, not 87 %."""
    a, b, c, d, e, f, root = range(7)
    buffers = build(Tree.from_choices([[0], [1], [0, 0], [0, 1], [0, 2], [1, 0]]), 7)
    tokens = torch.tensor([[root, a, e, b, c, d, f]])
    half, third = [0.5, 0, 0, 0, 0.5, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3, 0, 0, 0]
    logits = logits_of([[half, third, [0, 0, 0, 0, 0, 1.0, 0], third, third, third, third]])
    noise, count = PositionNoise(1, 7), 4000
    rows = np.stack([noise.rows(f"p{i}", 0, 3)[buffers.depths] for i in range(count)])
    verdict = Sampled(1.0).accept(
        buffers, tokens.expand(count, -1), logits.expand(count, -1, -1), torch.from_numpy(rows)
    )
    firsts = [int(tokens[0, path[1]]) for path in verdict.paths]
    assert stats.binomtest(firsts.count(a), count, 0.5).pvalue > 1e-4 and set(firsts) == {a, e}
    behind_a = np.bincount([path[2] for path in verdict.paths if path[1] == 1 and len(path) > 2])
    assert len(behind_a) == 6 and stats.chisquare(behind_a[3:6]).pvalue > 1e-4
    assert all(len(path) == 3 for path in verdict.paths if path[1] == 1), "b, c and d are all there are"


VOCABULARY, LENGTH, DRAWS = 5, 3, 1500
SMALL = {"vocab_size": VOCABULARY, "eos_token_id": None, "bos_token_id": None, "pad_token_id": None}


@pytest.fixture(scope="module")
def five():
    """A random Llama of five tokens."""
    return tiny.wrap(tiny.random_model("llama", **SMALL))


@pytest.mark.parametrize(
    "rule", [Sampled(3.0), Sampled(5.0, top_p=0.8), Sampled(5.0, top_k=3), Sampled(6.0, 0.9, 4)], ids=str
)
def test_texts_have_the_distribution_of_all_continuations(five, rule):
    """Three tokens behind one prompt, over 1,500 names: for every tree the same texts, of the model's distribution."""
    continuations = list(itertools.product(range(VOCABULARY), repeat=LENGTH))
    with torch.inference_mode():
        ids = torch.tensor([[3, *continuation] for continuation in continuations])
        scores = five.model(input_ids=ids).logits[:, :LENGTH] / rule.temperature
    p = torch.ones(len(continuations), dtype=torch.float64)
    for row, continuation in enumerate(continuations):
        for place, token in enumerate(continuation):
            p[row] *= tiny.filtered(scores[row, place], rule).double().softmax(-1)[token]
    assert float(p.sum()) == pytest.approx(1)
    names, seen = [f"p{i}" for i in range(DRAWS)], []
    for tree in (ROOT, chain(2), dense([3, 2]), Tree.from_choices([[4], [1], [1, 3]])):
        engine = Engine(five, tiny.heads_for(five), tree, rule=rule, seed=8)
        answers = engine.decode([[3]] * DRAWS, names, LENGTH)
        seen.append([tuple(answer.tokens) for answer in answers])
        assert tree == ROOT or max(max(answer.step_tokens) for answer in answers) > 1
    assert all(texts == seen[0] for texts in seen)
    counts = np.array([seen[0].count(continuation) for continuation in continuations])
    assert not counts[p.numpy() == 0].any()
    common = p.numpy() * DRAWS >= 5
    found = np.append(counts[common], counts[~common].sum())
    expected = np.append(p.numpy()[common], p.numpy()[~common].sum()) * DRAWS
    keep = expected > 0
    assert keep.sum() > 10
    assert stats.chisquare(found[keep], expected[keep], sum_check=False).pvalue > 1e-4


# Typical acceptance


def test_the_threshold_is_that_of_the_paper():
    """Check 19: p = (.5, .3, .2) gives .0900; uniform over 20 gives .0150."""
    rule = Typical(1.0, epsilon=0.09, delta=0.3)
    assert float(rule.threshold(torch.tensor([0.5, 0.3, 0.2]))) == pytest.approx(0.09)
    assert float(rule.threshold(torch.full((20,), 1 / 20))) == pytest.approx(0.015)
    assert float(rule.threshold(torch.tensor([1.0, 0.0]))) == pytest.approx(0.09), "0 log 0 is 0"


def test_a_candidate_must_be_likelier_than_the_threshold():
    buffers = build(Tree.from_choices([[0]]))
    flat = logits_of([[[0.05] * 20] * 2])
    for threshold, length in ((0.0499, 2), (0.0501, 1)):
        rule = Typical(1.0, epsilon=threshold, delta=1e9)
        assert len(rule.accept(buffers, torch.tensor([[3, 7]]), flat).paths[0]) == length


def test_temperature_0_is_greedy_whatever_epsilon_and_delta():
    buffers = build(Tree.from_choices([[0], [1]]))
    tokens, logits = torch.tensor([[0, 1, 2]]), logits_of([[[0.1, 0.44, 0.46]] * 3])
    assert Typical(1.0, 0.09).accept(buffers, tokens, logits).paths == [[0, 2]]
    for epsilon, delta in ((0.09, 0.3), (1e-9, 1e-9), (1.0, 99.0)):
        assert Typical(0.0, epsilon, delta).accept(buffers, tokens, logits).paths == [[0, 2]]
    logits = logits_of([[[0.46, 0.44, 0.1]] * 3])
    assert Typical(0.0, 1e-9, 1e-9).accept(buffers, tokens, logits).paths == [[0]]


def typical_by_hand(rule, tree, tokens, logits):
    """One row's accepted path: every root path tried, candidate by candidate."""

    def probabilities(node):
        row = [float(value) / rule.temperature for value in logits[node]]
        if any(map(math.isnan, row)):
            return None
        weights = [math.exp(value - max(row)) for value in row]
        return [weight / sum(weights) for weight in weights]

    best, key = [0], (0, 0.0)
    for node in range(1, tree.size):
        path = [node]
        while path[0]:
            path.insert(0, tree.parents[path[0]])
        total = 0.0
        for parent, child in itertools.pairwise(path):
            p = probabilities(parent)
            if p is None or probabilities(child) is None:
                break
            entropy = -sum(q * math.log(q) for q in p if q)
            if not p[tokens[child]] > min(rule.epsilon, rule.delta * math.exp(-entropy)):
                break
            total += math.log(p[tokens[child]])
        else:
            if (len(path) - 1, total) > (key[0], key[1] + 1e-9 * (len(path) - 1 == key[0])):
                best, key = path, (len(path) - 1, total)
    return best


@given(
    trees(),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0.02, 0.09, 0.25, 0.6]),
    st.integers(0, 2**16),
    st.sampled_from([0.0, 0.2]),
)
def test_typical_acceptance_is_the_rule_written_out(tree, temperature, epsilon, seed, nan_share):
    rule, random = Typical(temperature, epsilon, math.sqrt(epsilon)), np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(0, 1.5, (3, tree.size, 6)).astype(np.float32))
    tokens = torch.from_numpy(random.integers(0, 6, (3, tree.size)))
    nan = random.random((3, tree.size)) < nan_share
    logits[torch.from_numpy(nan), 2] = NAN
    verdict = rule.accept(build(tree, 6), tokens, logits)
    assert verdict.nan_nodes == nan.sum(1).tolist()
    for row, path in enumerate(verdict.paths):
        assert path == typical_by_hand(rule, tree, tokens[row].tolist(), logits[row])
        last = logits[row, path[-1]].nan_to_num(nan=-math.inf)
        assert verdict.roots[row] == int(last.argmax()), "the token behind it is greedy"


def test_of_several_longest_paths_the_likeliest_wins_and_then_the_first():
    buffers = build(Tree.from_choices([[0], [1], [2]]))
    for p, node in (([0.2, 0.3, 0.5], 3), ([0.4, 0.4, 0.2], 1)):
        verdict = Typical(1.0, 0.01).accept(buffers, torch.tensor([[0, 0, 1, 2]]), logits_of([[p] * 4]))
        assert verdict.paths == [[0, node]]


def test_nan_in_a_branch_rejects_that_branch_only_and_is_counted():
    """The likelier branch is no numbers: the other is taken; where the root is, nothing but it."""
    buffers = build(Tree.from_choices([[0], [1], [0, 0], [1, 0]]))
    tokens, logits = torch.tensor([[2, 0, 1, 0, 0]]), logits_of([[[0.6, 0.3, 0.1]] * 5])
    assert Typical(1.0).accept(buffers, tokens, logits) == ([[0, 1, 3]], [0], [0])
    logits[0, 1, 1] = NAN
    assert Typical(1.0).accept(buffers, tokens, logits) == ([[0, 2, 4]], [0], [1])
    logits[0, 0, 0] = NAN
    for temperature in (0.0, 1.0):
        assert Typical(temperature).accept(buffers, tokens, logits) == ([[0]], [1], [2])


@given(tiny.text(), trees(max_depth=3), st.sampled_from([0.0, 0.7, 2.0]))
def test_the_engine_emits_only_what_typical_acceptance_allows(prompt, tree, temperature):
    """Every emitted token is its place's greedy one where a step begins, and likely enough elsewhere."""
    model, rule = tiny.backbone(), Typical(temperature, 0.1, 0.3)
    engine = Engine(model, tiny.heads_for(model), tree, rule=rule)
    answer = engine.decode([prompt], ["p"], 12)[0]
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([prompt + answer.tokens])).logits[0, len(prompt) - 1 :]
    begins = set(itertools.accumulate(answer.step_tokens, initial=0))
    for place, token in enumerate(answer.tokens):
        if place in begins or temperature == 0:
            assert token == int(logits[place].argmax())
        else:
            p = (logits[place] / temperature).softmax(-1)
            assert p[token] > rule.threshold(p) - 1e-4
    assert answer.nan_nodes == 0


def test_the_engine_counts_nan_nodes():
    model = tiny.wrap(tiny.random_model())
    engine = Engine(model, tiny.heads_for(model), dense([3]), rule=Typical(1.0))
    with torch.no_grad():
        model.lm_head.weight[7] = NAN
    first, second = engine.decode([[4, 5], [6]], ["a", "b"], 2)
    assert first.nan_nodes == second.nan_nodes == 8, "four nodes in each of two steps"
    assert 7 not in first.tokens and first.step_tokens == [1, 1]
