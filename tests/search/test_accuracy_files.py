"""Tables of accuracies from elsewhere: JSON and CSV in the shapes people have."""

import json
from pathlib import Path

import numpy as np
import pytest

from treeopt.errors import InputError
from treeopt.search.accuracy_files import read_accuracy

PUBLISHED = Path(__file__).parents[2] / ".." / "shared" / "data" / "published_head_accuracy.json"
TABLE = [[0.6, 0.2], [0.5, 0.1]]


def written(tmp_path, text, name="accuracy.json"):
    path = tmp_path / name
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


@pytest.mark.parametrize("content", [TABLE, {"accuracy": TABLE, "model": "x"}])
def test_json_matrix(tmp_path, content):
    np.testing.assert_array_equal(read_accuracy(written(tmp_path, content)).values, TABLE)


def test_json_cumulative(tmp_path):
    path = written(tmp_path, [[0.5, 0.75], [0.25, 1]])
    np.testing.assert_array_equal(read_accuracy(path, cumulative=True).values, [[0.5, 0.25], [0.25, 0.75]])
    with pytest.raises(InputError, match=r"head 1 sums to 1\.25"):
        read_accuracy(path)


def test_csv_in_any_order_with_columns_of_any_order(tmp_path):
    text = "rank,accuracy,head,note\n1,.1,2,\n0,.6,1,x\n0,.5,2,\n1,.2,1,\n"
    np.testing.assert_array_equal(read_accuracy(written(tmp_path, text, "a.csv")).values, TABLE)


def test_csv_cumulative(tmp_path):
    path = written(tmp_path, "head,rank,accuracy,trials\n1,0,.5,9\n1,1,.75,9\n", "a.csv")
    table = read_accuracy(path, cumulative=True)
    np.testing.assert_array_equal(table.values, [[0.5, 0.25]])
    np.testing.assert_array_equal(table.trials, [9])


def test_named_tables_are_cumulative(tmp_path):
    tables = {"small": [[0.5, 0.75]], "large": [[0.75, 1.0]]}
    path = written(tmp_path, {"topk_accuracy": tables}, "with:colon.json")
    np.testing.assert_array_equal(read_accuracy(f"{path}:large").values, [[0.75, 0.25]])
    with pytest.raises(InputError, match=r"holds several tables; name one as .*:NAME, NAME of small, large"):
        read_accuracy(path)
    with pytest.raises(InputError, match="has no table 'huge'"):
        read_accuracy(f"{path}:huge")
    only = written(tmp_path, {"topk_accuracy": {"small": [[0.5, 0.75]]}})
    np.testing.assert_array_equal(read_accuracy(only).values, [[0.5, 0.25]])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([], "no matrix"),
        ({"a": 1}, "no matrix"),
        ([[0.5], []], "no matrix"),
        ([0.5], "no matrix"),
        ([[0.5, 0.1], [0.5]], "head 2 has 1 ranks and head 1 has 2"),
        ([[0.5, "x"]], "head 1, rank 1 is 'x', not a number"),
        ([[0.5, None]], "head 1, rank 1 is None, not a number"),
        ([[True]], "head 1, rank 0 is True, not a number"),
        ("[[NaN]]", "head 1, rank 0 is nan"),
        ("[[0.5]", "not JSON"),
        ({"topk_accuracy": []}, "topk_accuracy is no object of named tables"),
    ],
)
def test_wrong_json_is_refused_in_one_line(tmp_path, content, complaint):
    with pytest.raises(InputError, match=rf"^[^\n]*accuracy\.json: {complaint}[^\n]*$"):
        read_accuracy(written(tmp_path, content))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no rows"),
        ("head,rank,accuracy\n", "no rows"),
        ("head,rank\n1,0\n", "line 2: accuracy is absent, not a number"),
        ("head,rank,accuracy\n1,0,x\n", "line 2: accuracy is 'x', not a number"),
        ("head,rank,accuracy\n1,0\n", "line 2: accuracy is None, not a number"),
        ("head,rank,accuracy\n0,0,.5\n", "line 2: heads count from 1, ranks from 0"),
        ("head,rank,accuracy\n1,.5,.5\n", r"line 2: rank is 0\.5, not a whole number"),
        ("head,rank,accuracy\n1,nan,.5\n", "line 2: rank is nan, not a whole number"),
        ("head,rank,accuracy\n1,0,.5\n1,0,.4\n", "line 3: head 1, rank 0 is given twice"),
        ("head,rank,accuracy\n1,0,.5\n1,1,.4\n2,1,.1\n", "head 2 has no rank 0"),
        ("head,rank,accuracy\n1,0,nan\n", "head 1, rank 0 is nan"),
    ],
)
def test_wrong_csv_is_refused_in_one_line(tmp_path, text, complaint):
    with pytest.raises(InputError, match=rf"^[^\n]*a\.csv: {complaint}[^\n]*$"):
        read_accuracy(written(tmp_path, text, "a.csv"))


@pytest.mark.parametrize("name", ["absent.csv", "absent.json", "absent.json:7b"])
def test_an_absent_file_is_named(tmp_path, name):
    with pytest.raises(InputError, match=rf"{name}: cannot be read"):
        read_accuracy(tmp_path / name)


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published accuracies are not here")
@pytest.mark.parametrize("name", ["7b", "13b", "33b"])
def test_published_accuracies_are_of_exactly_each_guess(name):
    cumulative = json.loads(PUBLISHED.read_text())["topk_accuracy"][name]
    table = read_accuracy(f"{PUBLISHED}:{name}")
    assert table.values.shape == (5, 5)
    np.testing.assert_allclose(np.cumsum(table.values, axis=1), cumulative, atol=1e-15)
