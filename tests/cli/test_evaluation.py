"""What replay and evaluate say: intervals, categories and depths, all trees of a file, what was left out."""

import json

import pytest

from tests.cli.command_line import fail, prompt_rows, succeed, write_lines
from treeopt.artifact import read_json
from treeopt.cli.stages.evaluate import report_divergences
from treeopt.search.grow import Growth
from treeopt.search.ranks import RankTable
from treeopt.search.replay import replay
from treeopt.tree import Tree

MEASURES = ("latency_ms", "tokens_per_s", "overhead", "speedup")


@pytest.fixture
def model(copied, tiny, heads):
    return ["--run", copied, "--model", tiny, "--heads", heads]


def test_replay_shows_intervals_and_acceptance_by_depth_and_category(complete):
    growth = complete / "growth.json"
    text = succeed("replay", "--run", complete, "--tree", f"{growth}:4", "--tree", f"{growth}:16").stdout
    tree = Growth.read(growth).tree(16)
    half = RankTable.load(complete / "ranks.safetensors").split("evaluate")
    content = json.loads(succeed("replay", "--run", complete, "--tree", f"{growth}:16", "--json").stdout)
    [run] = content["runs"]
    tables = [[line.split() for line in part.splitlines()] for part in text.split("\n\n")]
    assert tables[0][0] == ["name", "N", "steps", "emitted", "tokens/step", "95", "%"]
    low, high = run["interval"]
    assert tables[0][2][-1] == f"{low:.3f}-{high:.3f}"
    assert tables[1][0][:5] == ["name", "category", "tokens/step", "95", "%"]
    assert tables[1][0][-2 * tree.depth :] == [
        word for k in range(tree.depth) for word in ("depth", f"{k + 1}")
    ]
    rows = {(row[0], row[1]): row[2:] for row in tables[1][1:]}
    assert set(rows) == {(size, part) for size in ("4", "16") for part in ("all", "words", "sums")}
    done = replay(half, tree)
    for category, part in done.by_category().items():
        reached, accepted = part.accepted_by_depth()
        shares = [f"{a / r:.3f}" if r else "-" for a, r in zip(accepted, reached, strict=True)]
        assert rows["16", category][0] == f"{part.tokens_per_step:.3f}"
        assert rows["16", category][2:] == shares
        assert run["categories"][category]["steps"] == part.steps
        low, high = run["categories"][category]["interval"]
        assert low <= part.tokens_per_step <= high


def test_all_is_every_size_of_a_growth_and_every_tree_of_a_file(complete, tmp_path):
    trees = {"one": [[0]], "two": [[0], [1]], "8": [[0], [0, 0]]}
    (tmp_path / "trees.json").write_text(json.dumps({"trees": trees}))
    growth = Growth.read(complete / "growth.json")
    asked = ["--tree", f"{complete / 'growth.json'}:all", "--tree", f"{tmp_path / 'trees.json'}:all"]
    content = json.loads(succeed("replay", "--run", complete, *asked, "--json").stdout)
    runs = {run["name"]: Tree.from_choices(run["choices"]) for run in content["runs"]}
    assert runs == {str(size): growth.tree(size) for size in range(1, 17)} | {
        "one": Tree.from_choices(trees["one"]),
        "two": Tree.from_choices(trees["two"]),
        f"{tmp_path / 'trees.json'}:8": Tree.from_choices(trees["8"]),
    }
    text = succeed("replay", "--run", complete, *asked).stdout
    assert "by category: --json" in text and "words" not in text, "too many for a text"
    named = {"trees": {"all": [[0]], "other": [[1]]}}
    (tmp_path / "named.json").write_text(json.dumps(named))
    content = json.loads(
        succeed("replay", "--run", complete, "--tree", f"{tmp_path / 'named.json'}:all", "--json").stdout
    )
    assert [run["choices"] for run in content["runs"]] == [[[0]]], "a tree of that name comes first"
    assert "holds several trees" in fail("export", "--run", complete, "--format", "json", *asked[:2])


@pytest.mark.parametrize("command", ["replay", "evaluate"])
def test_a_tree_that_does_not_fit_is_named(command, model, copied, tmp_path):
    (tmp_path / "trees.json").write_text(
        json.dumps({"trees": {"good": [[0]], "deep": [[0], [0] * 2, [0] * 3, [0] * 4]}})
    )
    options = ["--run", copied] if command == "replay" else model
    line = fail(command, *options, "--tree", f"{tmp_path / 'trees.json'}:all")
    assert "tree deep: choice [0, 0, 0, 0]" in line


def test_an_evaluation_has_intervals_of_all_it_times_and_of_each_category(complete):
    runs = {run["name"]: run for run in read_json(complete / "evaluation.json")["runs"]}
    plain = runs["plain"]
    for run in runs.values():
        for part, own in [
            (run, plain),
            *((run["categories"][c], plain["categories"][c]) for c in ("words", "sums")),
        ]:
            for name in MEASURES:
                low, high = part[f"{name}_interval"]
                assert low <= part[name] <= high or part is not run, "a category may have a prompt or two"
                assert low <= high
            assert part["overhead"] == pytest.approx(part["latency_ms"] / own["latency_ms"])
            assert part["speedup"] == pytest.approx(part["tokens_per_step"] / part["overhead"])
    assert sum(part["steps"] for part in runs["8"]["categories"].values()) == runs["8"]["steps"]


def test_one_token_an_answer_comes_out_of_transformers_prefill_and_has_no_time(model):
    content = json.loads(succeed("evaluate", *model, "--max-new-tokens", 1, "--json").stdout)
    runs = {run["name"]: run for run in content["runs"]}
    assert all(run["emitted"] == run["steps"] == len(run["ids"]) for run in runs.values())
    assert runs["hf_generate"]["tokens_per_s"] is None and runs["hf_generate"]["speedup"] is None
    assert runs["plain"]["tokens_per_s"] > 0
    assert "hf_generate" in succeed("evaluate", *model, "--max-new-tokens", 1).stdout


def test_prompts_longer_than_the_context_are_left_out_and_counted(tmp_path, tiny, heads):
    rows = [
        row | {"prompt": "x" * 200} if number % 5 == 0 else row for number, row in enumerate(prompt_rows())
    ]
    prompts = write_lines(tmp_path / "prompts.jsonl", rows)
    (tmp_path / "tree.json").write_text("[[0]]")
    options = ["--run", tmp_path / "run", "--model", tiny, "--heads", heads, "--tree", tmp_path / "tree.json"]
    options += ["--template", "none", "--max-new-tokens", 3, "--split", "all", "--no-hf"]
    done = succeed("evaluate", *options, "--prompts", prompts)
    assert "warning: evaluate: 4 prompts or later turns left out, as tiny takes 96 tokens" in done.stderr
    evaluation = read_json(tmp_path / "run" / "evaluation.json")
    assert len(evaluation["runs"][0]["ids"]) == 16 and evaluation["provenance"]["left_out"] == 4
    assert "16 prompts" in done.stdout
    write_lines(prompts, rows[::5])
    assert "no prompt leaves room for an answer" in fail("evaluate", *options, "--prompts", prompts)


def test_later_turns_made_elsewhere_are_evaluated_and_replayed(tmp_path, tiny, heads):
    rows = [
        {
            "id": f"p{n}",
            "category": "talk",
            "turn": turn,
            "prompt_ids": [5 + n, 9, *[7 + n] * turn],
            "answer_ids": [8, 9],
        }
        for n in range(8)
        for turn in (0, 1)
    ]
    write_lines(tmp_path / "generations.jsonl", rows)
    (tmp_path / "tree.json").write_text("[[0],[1],[0,0]]")
    options = ["--run", tmp_path, "--model", tiny, "--heads", heads, "--tree", tmp_path / "tree.json"]
    text = succeed("evaluate", *options, "--split", "all", "--max-new-tokens", 6, "--no-hf").stdout
    assert "16 answers to 8 prompts" in text
    plain, tree = read_json(tmp_path / "evaluation.json")["runs"]
    assert plain["ids"] == tree["ids"] == [row["id"] for row in rows]
    assert len(tree["step_tokens"]) == 16 and tree["identical_to_plain"]


def test_later_turns_that_plain_text_cannot_have_are_counted_when_evaluating(tmp_path, tiny, heads):
    prompts = write_lines(tmp_path / "turns.jsonl", [{"id": "a", "turns": ["one", "two"]}, {"prompt": "b"}])
    (tmp_path / "tree.json").write_text("[[0]]")
    options = ["--run", tmp_path / "run", "--model", tiny, "--heads", heads, "--tree", tmp_path / "tree.json"]
    options += [
        "--template",
        "none",
        "--max-new-tokens",
        2,
        "--split",
        "all",
        "--no-hf",
        "--prompts",
        prompts,
    ]
    assert succeed("evaluate", *options).stderr.count("1 later turns left out, as --template none") == 1


def divergence(name, position, margin, excused):
    return {"id": name, "position": position, "margin": margin, "excused": excused}


ROUNDED, REAL = divergence("a", 3, 5e-5, True), divergence("b", 7, 0.25, False)
FIRST = (
    "t: {} of 9 answers differ from plain decoding, the first {} at token {}, where the two best scores lie {}"
    " apart"
)


@pytest.mark.parametrize(
    ("dtype", "found", "lines"),
    [
        ("float32", [], []),
        ("float32", None, []),
        ("float32", [ROUNDED], [FIRST.format(1, "a", 3, "5.0e-05") + " (5.0e-05 at most): rounding"]),
        (
            "float32",
            [ROUNDED, REAL],
            [
                "warning: "
                + FIRST.format(2, "b", 7, "2.5e-01")
                + " (2.5e-01 at most), which is more than float32 rounding explains"
            ],
        ),
        (
            "bfloat16",
            [REAL, ROUNDED],
            [FIRST.format(2, "b", 7, "2.5e-01") + " (2.5e-01 at most), in bfloat16"],
        ),
    ],
)
def test_each_run_that_differs_has_one_line_with_the_first_divergence_and_its_margin(
    dtype, found, lines, capsys
):
    runs = [
        {"name": "t", "ids": ["a"] * 9, "divergences": found},
        {"name": "u", "ids": ["a"], "divergences": []},
    ]
    report_divergences({"provenance": {"dtype": dtype}, "runs": runs})
    assert capsys.readouterr().err.splitlines() == lines
