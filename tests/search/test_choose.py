"""Choosing a size: only what was timed competes, and plain decoding competes too."""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import rank_table, rank_tables
from treeopt.errors import InputError, MismatchError
from treeopt.search.accuracy import AccuracyTable
from treeopt.search.choose import Choice, Point, choose, read_choice, write_choice
from treeopt.search.estimate import Independent
from treeopt.search.grow import Growth, grow
from treeopt.search.latency import LatencyProfile
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.tree import ROOT

ACCURACIES = np.array([[0.6, 0.2, 0.1], [0.5, 0.2, 0.05], [0.4, 0.1, 0.05]])
"""The first table of pitfall 4."""

Facts = dict[str, str]

FIELDS = [
    *("batch", "context", "dtype", "choices", "tokens", "tokens_per_step", "latency_ms", "tokens_per_s"),
    *("interval", "plain", "speedup", "curve", "provenance"),
]


def growth_of(budget: int = 40, accuracies: np.ndarray = ACCURACIES, facts: Facts | None = None) -> Growth:
    return grow(Independent(AccuracyTable(accuracies)), budget, provenance=facts)


def profile_of(
    latencies: Mapping[int, float],
    batch: int = 1,
    context: int = 0,
    simulated: bool = False,
    facts: Facts | None = None,
) -> LatencyProfile:
    rows = [
        {"batch": batch, "context": context, "tokens": tokens, "latency_ms": latency}
        for tokens, latency in latencies.items()
    ]
    return LatencyProfile.from_rows(rows, simulated=simulated, provenance=facts)


def table_of(answers: int = 12, length: int = 30, facts: Facts | None = None) -> RankTable:
    """Answers to prompts of both halves, their ranks drawn from ACCURACIES."""
    rng = np.random.default_rng(0)
    width, rows = ACCURACIES.shape[1], answers * length
    shares = np.column_stack([ACCURACIES, 1 - ACCURACIES.sum(axis=1)])
    ranks = np.stack([rng.choice(width + 1, rows, p=share) for share in shares], axis=1)
    return replace(rank_table(ranks, [length] * answers, width=width), provenance=dict(facts or {}))


def test_more_nodes_and_better_acceptance_may_be_slower():  # pitfall 6
    latencies = [10.0, 10.1, 10.2, 10.3, 10.4, 14.0, 14.1, 14.2, 14.3]
    profile = profile_of({drafts + 1: latency for drafts, latency in enumerate(latencies)})
    [choice] = choose(profile, growth_of(), None)
    assert choice.tokens - 1 == 4
    assert choice.tokens_per_s == pytest.approx(213.5, abs=0.05)
    assert choice.curve[-1].tokens - 1 == 8
    assert choice.curve[-1].tokens_per_s == pytest.approx(181.1, abs=0.05)
    assert choice.curve[-1].tokens_per_step > choice.tokens_per_step
    assert choice.tree == growth_of().tree(5)


latency = st.floats(1, 100)
sizes = st.dictionaries(st.integers(2, 60), latency, min_size=1, max_size=12)


@given(plain=latency, latencies=sizes, batch=st.integers(1, 32))
def test_the_choice_is_the_best_of_all_timed_sizes(plain, latencies, batch):
    growth = growth_of()
    latencies.setdefault(2, 50.0)
    [choice] = choose(profile_of({1: plain, **latencies}, batch), growth, None)

    speeds = {1: batch * 1000 / plain}
    for size in range(2, growth.size + 1):
        if size in latencies:
            values = [1.0, *(growth.values[node] for node in range(1, size))]
            speeds[size] = batch * sum(values) * 1000 / latencies[size]
    best = max(speeds.values())
    assert choice.tokens_per_s == pytest.approx(best)
    assert speeds[choice.tokens] == pytest.approx(best)
    assert [point.tokens for point in choice.curve] == sorted(set(speeds) - {1})
    for point in choice.curve:
        assert point.latency_ms == latencies[point.tokens]
        assert point.tokens_per_s == pytest.approx(speeds[point.tokens])
    overhead = choice.latency_ms / plain
    assert choice.speedup == pytest.approx(choice.tokens_per_step / overhead)
    assert choice.speedup >= 1
    assert (choice.choices is None) == (choice.tokens == 1)
    assert choice.interval is None
    assert choice.estimated_from == "growth"


def test_no_tree_where_plain_decoding_is_the_fastest(tmp_path):
    [choice] = choose(profile_of({1: 10, 8: 50, 16: 60}), growth_of(), table_of())
    assert choice.choices is None
    assert choice.tree == ROOT
    assert (choice.tokens, choice.tokens_per_step, choice.latency_ms) == (1, 1.0, 10)
    assert choice.tokens_per_s == choice.plain.tokens_per_s == pytest.approx(100)
    assert choice.speedup == 1
    assert [point.tokens for point in choice.curve] == [8, 16]
    write_choice(tmp_path / "choice.json", [choice], {})
    assert json.loads((tmp_path / "choice.json").read_text())["choices"] is None


def test_a_tie_goes_to_the_fewer_tokens():
    sure = growth_of(2, np.array([[1.0]]))
    assert choose(profile_of({1: 10, 2: 20}), sure, None)[0].choices is None
    assert choose(profile_of({1: 10, 2: 19}), sure, None)[0].choices == ((0,),)


def test_a_growth_without_a_single_guess_is_no_tree():
    [choice] = choose(profile_of({1: 10, 8: 11}), growth_of(8, np.zeros((2, 3))), None)
    assert choice.choices is None
    assert choice.curve == ()


def test_batches_and_contexts_are_chosen_apart():
    profile = profile_of({1: 10, 8: 11, 32: 12}, batch=1, context=128)
    for batch, context, latencies in [(1, 512, {1: 10, 8: 11, 32: 40}), (32, 128, {1: 10, 8: 80, 32: 300})]:
        profile = profile.merge(profile_of(latencies, batch, context))
    choices = choose(profile, growth_of(), None)
    assert [(choice.batch, choice.context) for choice in choices] == [(1, 128), (1, 512), (32, 128)]
    assert [choice.tokens for choice in choices] == [32, 8, 1]
    assert choices[2].plain.tokens_per_s == pytest.approx(32 * 100)


def test_with_ranks_every_size_is_replayed_on_all_of_the_given_table_and_nothing_else():
    table, growth = table_of(), growth_of()
    [choice] = choose(profile_of({1: 10, 4: 11, 16: 12, 32: 14}), growth, table)
    for point in choice.curve:
        assert point.tokens_per_step == replay(table, growth.tree(point.tokens)).tokens_per_step
    assert choice.estimated_from == "replay"
    assert choice.provenance["positions"] == table.positions
    half = table.split("calibrate")
    assert 0 < half.positions < table.positions
    [halved] = choose(profile_of({1: 10, 16: 12}), growth, half)
    assert halved.tokens_per_step == replay(half, growth.tree(16)).tokens_per_step
    assert halved.provenance["positions"] == half.positions


@given(table=rank_tables(), latencies=sizes)
def test_any_table_gives_finite_intervals(table, latencies):
    assume(table.positions)
    growth = grow(Independent(table.accuracy()), 60)
    [choice] = choose(profile_of({1: 10.0, 2: 11.0} | latencies), growth, table)
    for point in choice.curve:
        assert point.tokens_per_step == replay(table, growth.tree(point.tokens)).tokens_per_step
        assert point.interval is not None
        assert 0 < point.interval[0] <= point.interval[1] < math.inf


def test_intervals_hold_prompts_and_latencies_and_are_the_same_on_every_run():
    rng = np.random.default_rng(1)
    rows = [
        {"batch": 2, "context": 0, "tokens": tokens, "latency_ms": base + noise}
        for tokens, base in ((1, 10), (8, 11), (16, 12))
        for noise in rng.exponential(1, 30)
    ]
    profile, table = LatencyProfile.from_rows(rows), table_of()
    [choice] = choose(profile, growth_of(), table)
    for point in choice.curve:
        assert point.interval is not None
        assert point.interval[0] < point.tokens_per_s < point.interval[1]
    assert choose(profile, growth_of(), table) == [choice]
    assert choose(profile, growth_of(), table, seed=1) != [choice]
    fixed = profile_of({size: profile.median(2, 0, size) for size in (8, 16)} | {1: 10}, batch=2)
    [exact] = choose(fixed, growth_of(), table)
    assert width(exact.curve[0]) < width(choice.curve[0]), "latency noise widens the interval"


def width(point: Point) -> float:
    assert point.interval is not None
    return point.interval[1] - point.interval[0]


def test_the_interval_of_one_prompt_and_one_latency_is_a_point():
    [choice] = choose(profile_of({1: 10, 8: 11}), growth_of(), table_of(answers=1))
    assert choice.interval == pytest.approx((choice.tokens_per_s, choice.tokens_per_s))


def test_choice_json_has_the_fields_that_other_programs_read(tmp_path):
    path = tmp_path / "choice.json"
    choices = choose(profile_of({1: 10, 8: 11}, facts={"dtype": "float32"}), growth_of(), table_of())
    write_choice(path, choices, {"seed": 0})
    content = json.loads(path.read_text())
    assert [field for field in FIELDS if field not in content] == []
    assert content["choices"] == [list(path) for path in growth_of().tree(8).choices]
    assert set(content["plain"]) == {"latency_ms", "tokens_per_s"}
    assert set(content["curve"][0]) == {"tokens", "tokens_per_step", "latency_ms", "tokens_per_s", "interval"}
    assert len(content["interval"]) == 2
    assert content["dtype"] == content["provenance"]["dtype"] == "float32"
    assert content["provenance"]["seed"] == 0

    several = profile_of({1: 10, 8: 11}).merge(profile_of({1: 10, 8: 11}, batch=4))
    write_choice(path, choose(several, growth_of(), None), {"seed": 0})
    points = json.loads(path.read_text())["points"]
    assert [point["batch"] for point in points] == [1, 4]
    assert all(set(FIELDS) <= set(point) for point in points)
    assert points[0]["interval"] is None


@pytest.mark.parametrize("batches", [[1], [1, 8]])
def test_choices_are_written_and_read_back(tmp_path: Path, batches: list[int]):
    profile = profile_of({1: 10, 8: 11, 200: 12}, batches[0])
    for batch in batches[1:]:
        profile = profile.merge(profile_of({1: 10, 8: 90}, batch))
    choices = choose(profile, growth_of(facts={"model": "demo"}), table_of())
    write_choice(tmp_path / "choice.json", choices, {})
    assert read_choice(tmp_path / "choice.json") == choices


@pytest.mark.parametrize(
    "content", [{}, {"points": 3}, {"points": [1]}, {"choices": [[0]]}, {"batch": "many"}]
)
def test_a_file_that_is_no_choice_is_refused(tmp_path, content):
    path = tmp_path / "choice.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"choice\.json: not a whole choice.*treeopt choose"):
        read_choice(path)


@given(
    field=st.sampled_from([field.name for field in fields(Choice)]),
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2),
)
def test_a_choice_with_a_wrong_field_is_refused_or_taken_without_a_crash(tmp_path_factory, field, value):
    path = tmp_path_factory.mktemp("choice") / "choice.json"
    write_choice(path, choose(profile_of({1: 10, 8: 11}), growth_of(), None), {})
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with suppress(InputError):
        assert isinstance(read_choice(path)[0], Choice)


CONTRADICTIONS = {
    "tokens": ({"tokens": 5}, "tokens is 5, but its choices are a tree of 8"),
    "choices": ({"choices": [[0]]}, "tokens is 8, but its choices are a tree of 2"),
    "no tree of many tokens": ({"choices": None}, "tokens is 8, but its choices are a tree of 1"),
    "an empty curve": ({"curve": []}, "curve has no point of its 8 tokens"),
    "text for a number": ({"speedup": "1.3"}, "speedup is '1.3', not a number above 0"),
    "no latency": ({"latency_ms": 0}, "latency_ms is 0, not a number above 0"),
    "no number": ({"tokens_per_s": math.nan}, "tokens_per_s is nan"),
    "true for a number": ({"batch": True}, "batch is True, not a whole number from 1"),
    "text for a flag": ({"simulated": "false"}, "simulated is 'false'"),
    "an interval that ends first": ({"interval": [9.0, 8.0]}, "which ends before it starts"),
    "an interval without an end": ({"interval": [9.0, math.inf]}, "interval is inf"),
    "plain decoding in no time": ({"plain": {"latency_ms": -1, "tokens_per_s": 5}}, "latency_ms is -1"),
    "no points": ({"points": []}, "points is empty"),
}


@pytest.mark.parametrize(("change", "says"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_choice_that_contradicts_itself_is_refused(tmp_path, change, says):
    path = tmp_path / "choice.json"
    write_choice(path, choose(profile_of({1: 10, 8: 11}), growth_of(), table_of()), {})
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=rf"choice\.json: .*{re.escape(says)}"):
        read_choice(path)


def test_a_profile_without_samples_is_refused():
    with pytest.raises(InputError, match="no samples"):
        choose(LatencyProfile.from_rows([]), growth_of(), None)


def test_simulated_latencies_mark_the_choice():
    [measured] = choose(profile_of({1: 10, 8: 11}), growth_of(), None)
    [simulated] = choose(profile_of({1: 10, 8: 11}, simulated=True), growth_of(), None)
    assert (measured.simulated, simulated.simulated) == (False, True)
    assert any("simulated" in note for note in simulated.notes)


def test_profiled_sizes_beyond_the_growth_are_named():
    [choice] = choose(profile_of({1: 10, 8: 11, 48: 12, 64: 13}), growth_of(16), None)
    assert [point.tokens for point in choice.curve] == [8]
    [note] = choice.notes
    assert "48, 64" in note
    assert "16 tokens" in note


def test_no_profiled_size_within_the_growth_is_refused():
    with pytest.raises(
        InputError, match=r"batch 1, context 0: no profiled size \(32, 64\).*16 tokens.*--budget"
    ):
        choose(profile_of({1: 10, 32: 11, 64: 12}), growth_of(16), None)
    with pytest.raises(InputError, match=r"no profiled size \(none\)"):
        choose(profile_of({1: 10}), growth_of(16), None)


def test_nothing_to_compare_with_is_refused():
    with pytest.raises(InputError, match="no plain decoding at batch 1, context 0"):
        choose(profile_of({8: 11}), growth_of(), None)


def test_inputs_of_different_models_or_heads_are_refused():
    latencies = {1: 10.0, 8: 11.0}
    same = {"model_sha256": "a", "heads_sha256": "b"}
    assert choose(profile_of(latencies, facts=same), growth_of(facts=same), table_of(facts=same))
    other = same | {"heads_sha256": "c"}
    for profile, growth, table in [
        (profile_of(latencies, facts=other), growth_of(facts=same), None),
        (profile_of(latencies, facts=other), growth_of(), table_of(facts=same)),
        (profile_of(latencies), growth_of(facts=same), table_of(facts=other)),
    ]:
        with pytest.raises(MismatchError, match="heads_sha256"):
            choose(profile, growth, table)


def test_other_dtypes_in_calibration_and_profile_are_noted():
    profile = profile_of({1: 10, 8: 11}, facts={"dtype": "float16"})
    [choice] = choose(profile, growth_of(), table_of(facts={"dtype": "float32"}))
    assert choice.dtype == "float16"
    assert any("float16" in note and "float32" in note for note in choice.notes)


def test_a_gain_within_the_noise_is_noted():
    table, growth = table_of(answers=3, length=20), growth_of()
    rate = replay(table, growth.tree(8)).tokens_per_step
    [choice] = choose(profile_of({1: 10, 8: 10 * rate / 1.001}), growth, table)
    assert choice.choices is not None
    assert any("interval" in note for note in choice.notes)


def next_sizes(latencies: dict[int, float], budget: int = 40) -> tuple[int, ...]:
    choice: Choice = choose(profile_of(latencies), growth_of(budget), None)[0]
    return choice.next_sizes


def test_next_sizes_are_the_middles_of_gaps_that_may_hide_something_better():
    assert next_sizes({1: 10, 2: 11, 30: 13}, budget=30) == (16,), "the multiple of 16 nearest the middle"
    assert next_sizes({1: 10, 2: 11, 12: 13}, budget=12) == (7,), "no multiple of 16 in between"
    assert next_sizes({1: 10, 8: 11, 9: 11.1}, budget=9) == (4,), "from plain decoding to the first tree"
    assert next_sizes({1: 10, 2: 11, 3: 12, 4: 13}, budget=4) == (), "no gaps"
    assert next_sizes({1: 10, 2: 11, 8: 13, 9: 30, 20: 40}, budget=20) == (5,), "not where all is slow"
    assert next_sizes({1: 10, 2: 10.1, 3: 10.2}, budget=33) == (16,), "beyond the last timed size"
    assert next_sizes({1: 10, 2: 10.1, 64: 11}, budget=33) == (16,), "no further than the growth reaches"


@given(sizes)
def test_next_sizes_were_not_profiled_and_could_win(latencies):
    growth = growth_of()
    latencies = {1: 10.0, 2: 11.0} | latencies
    [choice] = choose(profile_of(latencies), growth, None)
    for size in choice.next_sizes:
        assert size not in latencies
        assert size <= growth.size
        below = max(tokens for tokens in latencies if tokens < size)
        above = min([tokens for tokens in latencies if tokens > size] + [growth.size + 1])
        largest = min(above - 1, growth.size)
        assert growth.tokens_per_step[largest - 1] * 1000 / latencies[below] > choice.tokens_per_s
