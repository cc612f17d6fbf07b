"""The curves of a training log: the right numbers in the info, and a drawing of whatever a log has."""

import json
import math

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from treeopt.errors import InputError
from treeopt.view.training import (
    COLUMNS,
    draw_accuracy,
    draw_loss,
    save_training_plot,
    training_figure,
    training_info,
)

SETTINGS = {"heads": 2, "model": "m", "answers": 9, "answer_tokens": 400}


def trained(stage, step, own, *heads):
    return {
        "stage": stage,
        "step": step,
        "epoch": step / 10,
        "loss": 1.0,
        "learning_rate": 1e-3,
        "grad_norm": 0.5,
        "train_lm_loss": own,
        "train_loss": list(heads),
    }


def judged(stage, step, own, *heads):
    """Held-out losses as given; top-1 is a tenth of them, top-5 a fifth."""
    record = {"stage": stage, "step": step, "epoch": step / 10}
    for name, scale in (("loss", 1), ("top1", 0.1), ("top5", 0.2)):
        record |= {
            f"held_out_lm_{name}": own * scale,
            f"held_out_{name}": [head * scale for head in heads],
        }
    return record


def two_stages(heads=2, distilled=False):
    losses = [2 + head / 10 for head in range(heads)]
    return [
        SETTINGS | {"self_distill": distilled},
        judged("warmup", 0, 0.5, *losses),
        trained("warmup", 5, 0.0, *losses),
        trained("warmup", 10, 0.0, *losses),
        judged("warmup", 10, 0.5, *losses),
        judged("joint", 0, 0.5, *losses),
        trained("joint", 5, 0.25, *losses),
        trained("joint", 20, 0.25, *losses),
        judged("joint", 20, 0.75, *losses),
    ]


def numbers(info, quantity, head):
    rows = info[(info["quantity"] == quantity) & (info["head"] == head)]
    return list(zip(rows["stage"], rows["step"], rows["value"], strict=True))


@st.composite
def logs(draw):
    """Logs of any stages, from whose records any fields are missing or null, with lists of any length and nulls."""
    number = st.none() | st.floats(0, 20) | st.just(math.nan) | st.just(math.inf)
    records = [dict(SETTINGS)]
    for stage in draw(st.lists(st.sampled_from(["medusa1", "warmup", "joint"]), max_size=6)):
        step, heads = draw(st.integers(0, 10**6)), draw(st.lists(number, max_size=9))
        record = trained(stage, step, 0.1, *heads) | draw(st.sampled_from([{}, judged(stage, step, 0.1, 2)]))
        missing = draw(st.sets(st.sampled_from(sorted(record))))
        null = draw(st.sets(st.sampled_from(sorted(record))))
        records.append(
            {name: None if name in null else v for name, v in record.items() if name not in missing}
        )
    return draw(st.sampled_from([records, records[1:]]))


def test_the_info_has_a_row_for_every_number_of_the_log():
    records = [SETTINGS, trained("joint", 4, 0.5, 3.0, None), judged("joint", 4, 0.6, 2.0, 4.0)]
    info = training_info(records)
    assert list(info.columns) == list(COLUMNS)
    assert [tuple(row) for row in info.itertuples(index=False)] == [
        ("joint", 4, 0.4, "train loss", 0, 0.5),
        ("joint", 4, 0.4, "train loss", 1, 3.0),
        ("joint", 4, 0.4, "held-out loss", 0, 0.6),
        ("joint", 4, 0.4, "held-out loss", 1, 2.0),
        ("joint", 4, 0.4, "held-out loss", 2, 4.0),
        ("joint", 4, 0.4, "top-1", 0, 0.6 * 0.1),
        ("joint", 4, 0.4, "top-1", 1, 0.2),
        ("joint", 4, 0.4, "top-1", 2, 0.4),
        ("joint", 4, 0.4, "top-5", 0, 0.6 * 0.2),
        ("joint", 4, 0.4, "top-5", 1, 0.4),
        ("joint", 4, 0.4, "top-5", 2, 0.8),
    ]


def test_steps_run_on_over_the_stages_and_a_frozen_backbone_has_no_train_loss():
    info = training_info(two_stages())
    assert numbers(info, "train loss", 2) == [
        ("warmup", 5, 2.1),
        ("warmup", 10, 2.1),
        ("joint", 15, 2.1),
        ("joint", 30, 2.1),
    ]
    assert numbers(info, "train loss", 0) == [("joint", 15, 0.25), ("joint", 30, 0.25)]
    assert numbers(info, "held-out loss", 0) == [
        ("warmup", 0, 0.5),
        ("warmup", 10, 0.5),
        ("joint", 10, 0.5),
        ("joint", 30, 0.75),
    ]
    assert info["epoch"].max() == 2  # of its own stage


def test_the_distance_to_a_teacher_is_not_taken_for_a_loss_on_the_answers():
    info = training_info(two_stages(distilled=True))
    assert numbers(info, "distance to teacher", 0) == [("joint", 15, 0.25), ("joint", 30, 0.25)]
    assert numbers(info, "train loss", 0) == []
    assert len(numbers(info, "train loss", 1)) == 4


def test_settings_alone_give_an_empty_info_with_its_types():
    info = training_info([SETTINGS])
    assert info.empty
    assert list(info.columns) == list(COLUMNS)
    assert info["step"].dtype == int and info["value"].dtype == float


@given(logs())
def test_any_log_gives_finite_numbers(records):
    info = training_info(records)
    assert info["value"].map(math.isfinite).all()
    assert (info["head"] >= 0).all()
    assert (info["step"] >= 0).all()


@settings(max_examples=15, deadline=None)
@given(logs())
def test_any_log_can_be_drawn(records):
    training_figure(records).draw_without_rendering()


@pytest.mark.parametrize("heads", [1, 5, 9, 33])
def test_each_head_has_one_colour_in_both_panels_and_a_name_in_the_legend(heads):
    figure = training_figure(two_stages(heads))
    [legend] = figure.legends
    names = ["backbone", *(f"head {head + 1}" for head in range(heads))]
    assert [text.get_text() for text in legend.get_texts()] == names
    for axes in figure.axes:
        colours = {str(line.get_label()): line.get_color() for line in axes.lines}
        assert len({colours[name] for name in names}) == len(names)
        assert colours["backbone"] == "#000000"
        assert [colours[name] for name in names] == [line.get_color() for line in legend.get_lines()]
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert 0 <= box.y0 < box.y1 <= figure.bbox.y1 and box.x1 <= figure.bbox.x1


def test_axes_are_returned_with_units_accuracy_in_percent_and_the_stages_named():
    info = training_info(two_stages())
    left, right = Figure().subplots(1, 2)
    assert draw_loss(left, info) is left and draw_accuracy(right, info) is right
    assert (left.get_xlabel(), left.get_ylabel()) == ("step", "loss (nats)")
    assert (right.get_xlabel(), right.get_ylabel()) == ("step", "accuracy (%)")
    assert [20, 20] in [np.asarray(line.get_ydata()).tolist() for line in right.lines]
    for axes in (left, right):
        assert [text.get_text().strip() for text in axes.texts] == ["warmup", "joint"]
        assert {text.get_position()[0] for text in axes.texts} == {10}


def test_a_frozen_backbone_does_not_squeeze_the_accuracies_of_the_heads():
    frozen = [judged("medusa1", step, 9.0, 2.0 + step / 10, 1.0) for step in (0, 5)]
    heads = draw_accuracy(Figure().subplots(), training_info([SETTINGS, *frozen]))
    lines = [np.asarray(line.get_ydata()) for line in heads.lines]
    drawn = [line.max() for line in lines if line.size]
    assert sorted(drawn) == pytest.approx([10, 20, 25, 50]), "both heads' top-1 and top-5"
    assert heads.get_ylim()[1] < 60
    both = draw_accuracy(Figure().subplots(), training_info(two_stages()))
    black = [np.asarray(line.get_xdata()).tolist() for line in both.lines if line.get_color() == "#000000"]
    assert black == [[10, 30], [10, 30], []], "it changes in the joint stage alone"


def test_panels_say_when_there_is_nothing_to_draw():
    def notes(records):
        return [[text.get_text() for text in axes.texts] for axes in training_figure(records).axes]

    assert notes([]) == notes([SETTINGS]) == [["nothing logged"]] * 2
    assert notes([SETTINGS, trained("medusa1", 1, None, 2.0)]) == [[], ["nothing logged"]]
    only_accuracy = {"stage": "medusa1", "step": 1, "held_out_top1": [0.5]}
    assert notes([SETTINGS, only_accuracy]) == [["nothing logged"], []]


@pytest.mark.parametrize("suffix", [".svg", ".png", ".SVG"])
def test_the_same_log_gives_the_same_bytes_whatever_the_users_style(suffix, tmp_path):
    first, again = tmp_path / f"a{suffix}", tmp_path / "new" / f"b{suffix}"
    save_training_plot(two_stages(), first)
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "savefig.transparent": True}):
        save_training_plot(json.loads(json.dumps(two_stages())), again)
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert dict(matplotlib.rcParams) == before
    assert sorted(tmp_path.iterdir()) == [first, again.parent]


@pytest.mark.parametrize("name", ["plot.pdf", "plot", "file/plot.svg", "directory.png"])
def test_a_place_that_cannot_be_written_is_named(name, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "directory.png").mkdir()
    with pytest.raises(InputError, match=name):
        save_training_plot([SETTINGS], tmp_path / name)
