"""`treeopt heads inspect` and `convert`, as a user types them, and `--heads` with what they write."""

import json
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.cli.command_line import fail, following, run_cli, succeed
from treeopt.model.checkpoints import read_heads
from treeopt.model.layouts import LAYOUTS

NAMES = list(LAYOUTS)


def converted(heads, name, directory, tiny, *more):
    return succeed("heads", "convert", heads, "--layout", name, "-o", directory, "--model", tiny, *more)


def test_the_layouts_are_listed():
    text = succeed("heads", "convert", "--layout", "help").stdout
    for name, layout in LAYOUTS.items():
        row = next(line for line in text.splitlines() if line.split()[:1] == [name])
        assert layout.files[0] in row and layout.spelling.example() in row
        assert f"{name}: {layout.description} ({layout.versions})" in text
    listed = json.loads(succeed("heads", "convert", "--layout", "help", "--json").stdout)["layouts"]
    assert list(listed) == NAMES and listed["nxd"]["most_layers"] == {"own": 1}


def test_inspect_says_what_there_is_and_who_reads_it(heads):
    result = succeed("heads", "inspect", heads)
    lines = result.stdout.splitlines()
    assert lines[0] == f"{heads}/medusa_lm_head.safetensors: keys as FasterDecoding has them"
    assert lines[1] == "heads 3, layers 1, hidden size 32"
    assert lines[2:4] == ["LM head: the backbone's", "float32, 0.0 MB"]
    assert "tgi: reads this as it is" in lines and "medusa-v2: wants the file name medusa_lm_head.pt" in lines
    assert following(result)[:3] == ["heads", "convert", str(heads)]
    content = json.loads(succeed("heads", "inspect", heads / "medusa_lm_head.safetensors", "--json").stdout)
    counts = {name: content[name] for name in ("heads", "layers", "hidden_size", "vocabulary", "lm_head")}
    assert counts == {"heads": 3, "layers": 1, "hidden_size": 32, "vocabulary": None, "lm_head": "shared"}
    assert content["bytes"] == 3 * (32 * 32 + 32) * 4 and content["contradictions"] == []
    assert [name for name, runtime in content["runtimes"].items() if not runtime["lacks"]] == ["tgi", "lorax"]


def test_a_second_file_that_another_runtime_would_read_is_told(heads, tmp_path):
    copied = shutil.copytree(heads, tmp_path / "heads")
    torch.save(load_file(heads / "medusa_lm_head.safetensors"), copied / "medusa_lm_head.pt")
    told = "medusa_lm_head.pt is there too: some runtimes read it instead"
    assert told in succeed("heads", "inspect", copied).stdout.splitlines()
    assert "there too" not in succeed("heads", "inspect", heads).stdout


def test_inspect_counts_by_keys_and_tells_a_config_that_says_otherwise(heads, tmp_path):
    """Published configurations say two heads where the file has five."""
    copied = shutil.copytree(heads, tmp_path / "heads")
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"medusa_num_heads": 2}))
    told = succeed("heads", "inspect", copied).stdout
    assert "heads 3, layers 1" in told
    assert "medusa_num_heads is 2 in config.json, but the file has 3 heads" in told
    assert "tgi: wants config.json with medusa_num_heads" in told


@pytest.mark.parametrize("name", NAMES)
def test_every_layout_is_written_read_and_decoded_with(name, heads, tiny, complete, tmp_path):
    """Converted heads stand for the first ones: the same text, in the same steps."""
    result = converted(heads, name, tmp_path / name, tiny)
    stored = read_heads(tmp_path / name)
    assert str(stored.file) == result.stdout.splitlines()[0]
    assert (stored.shape.heads, stored.shape.layers, stored.shape.hidden_size) == (3, 1, 32)
    content = json.loads(succeed("heads", "inspect", tmp_path / name, "--json").stdout)
    assert content["runtimes"][name]["lacks"] == []
    format = LAYOUTS[name].format
    expected = ["export", "--format", format] if format else ["heads", "inspect", str(tmp_path / name)]
    assert following(result)[:3] == expected
    assert not format or following(result)[-2:] == ["--run", str(heads.parent)]
    if name not in ("vllm", "nxd", "medusa"):
        return
    model = ["--run", tmp_path / "run", "--model", tiny, "--tree", complete / "choice.json"]
    shutil.copytree(complete, tmp_path / "run")
    runs = []
    for place in (heads, tmp_path / name):
        (tmp_path / "run" / "ranks.safetensors").unlink(missing_ok=True)
        evaluated = succeed("evaluate", *model, "--heads", place, "--no-hf", "--json")
        runs.append(json.loads(evaluated.stdout)["runs"][-1]["step_tokens"])
    assert runs[0] == runs[1]


def test_a_type_can_be_asked_for(heads, tiny, tmp_path):
    converted(heads, "vllm", tmp_path / "half", tiny, "--dtype", "bfloat16")
    tensors = load_file(tmp_path / "half" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    [lm_head] = [tensor for name, tensor in tensors.items() if "lm_head" in name]
    assert torch.equal(lm_head, load_file(tiny / "model.safetensors")["lm_head.weight"].bfloat16())


def test_what_is_there_stays_unless_it_is_to_be_replaced(heads, tiny, tmp_path):
    target = tmp_path / "heads"
    converted(heads, "mlc", target, tiny)
    before = {path: path.read_bytes() for path in target.iterdir()}
    arguments = ["heads", "convert", heads, "--layout", "mlc", "-o", target, "--model", tiny]
    assert "model.safetensors: is there already" in fail(*arguments)
    assert {path: path.read_bytes() for path in target.iterdir()} == before
    succeed(*arguments, "--overwrite", "--dtype", "float16")
    assert read_heads(target).dtypes == ["float16"]
    line = fail("heads", "convert", heads, "--layout", "vllm", "-o", heads, "--model", tiny, "--overwrite")
    assert "medusa_lm_head.safetensors: would be read instead of model.safetensors" in line
    assert not (heads / "model.safetensors").exists()


@pytest.mark.parametrize("name", ["mlc", "vllm", "modelopt"])
def test_a_model_is_never_replaced_by_its_heads(name, heads, tiny, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "model")
    before = {path: path.read_bytes() for path in model.iterdir()}
    for extra in ([], ["--overwrite"]):
        fail("heads", "convert", heads, "--layout", name, "-o", model, "--model", tiny, *extra)
    (model / "model.safetensors").unlink()
    line = fail("heads", "convert", heads, "--layout", name, "-o", model, "--model", tiny, "--overwrite")
    assert "config.json: is not of heads, and stays" in line
    assert all(path.read_bytes() == content for path, content in before.items() if path.exists())


def test_nxd_heads_go_into_the_models_directory(heads, tiny, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "model")
    converted(heads, "nxd", model, tiny)
    assert read_heads(model).file == model / "medusa_heads.pt"
    assert (model / "config.json").read_bytes() == (tiny / "config.json").read_bytes()


WRONG = {
    "an LM head without its model": (
        ["{heads}", "--layout", "vllm", "-o", "out"],
        "name their model with --model",
    ),
    "another model": (
        ["{heads}", "--layout", "mlc", "-o", "out", "--model", "{stranger}"],
        "hidden size 32, but stranger has 64",
    ),
    "a model that is nowhere": (
        ["{heads}", "--layout", "mlc", "-o", "out", "--model", "no/model"],
        "no/model",
    ),
    "no such layout": (["{heads}", "--layout", "sglang", "-o", "out"], "use one of medusa, medusa-v2, tgi"),
    "no such heads": (["nowhere", "--layout", "tgi", "-o", "out"], "no Medusa heads there"),
    "a model without heads": (["{tiny}", "--layout", "tgi", "-o", "out"], "no Medusa heads"),
    "a place that is a file": (["{heads}", "--layout", "tgi", "-o", "{file}"], "cannot be written"),
}


@pytest.mark.parametrize(("arguments", "named"), WRONG.values(), ids=WRONG)
def test_wrong_conversions_are_one_line_and_write_nothing(
    arguments, named, heads, tiny, tmp_path, monkeypatch
):
    from tests.tiny import random_model

    monkeypatch.chdir(tmp_path)
    random_model("llama", hidden_size=64).save_pretrained(tmp_path / "stranger")
    (tmp_path / "file").write_text("")
    places = {"heads": heads, "tiny": tiny, "stranger": tmp_path / "stranger", "file": tmp_path / "file"}
    assert named in fail("heads", "convert", *(word.format(**places) for word in arguments))
    assert not (tmp_path / "out").exists()


def test_a_config_that_does_not_name_the_model_is_told_from_none(heads, tiny, tmp_path):
    converted(heads, "vllm", tmp_path / "vllm", tiny)
    arguments = ["heads", "convert", tmp_path / "vllm", "--layout", "tgi", "-o", tmp_path / "out"]
    config = tmp_path / "vllm" / "config.json"
    assert f"{config} does not say of which model" in fail(*arguments)
    config.unlink()
    assert f"no {config} says of which model" in fail(*arguments)


def test_wrong_usage_of_convert(heads):
    assert "--output" in fail("heads", "convert", heads, "--layout", "tgi", status=2)
    assert "name the heads" in fail("heads", "convert", "--layout", "tgi", "-o", "out", status=2)
    assert "--layout" in fail("heads", "convert", heads, "-o", "out", status=2)


DAMAGES = ("truncated", "garbage", "renamed", "dropped", "extra", "reshaped", "config")


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory, heads, tiny):
    """Heads in every layout, to be damaged, and a copy of them."""
    directory = tmp_path_factory.mktemp("spoiled")
    for name in NAMES:
        converted(heads, name, directory / "whole" / name, tiny)
    return directory


@settings(max_examples=80)
@given(data=st.data())
def test_damaged_heads_are_one_line_or_read_as_they_are(data, spoiled):
    """Truncated, overwritten, with keys renamed, gone, added, or of another shape; never a traceback."""
    name, damage = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from(DAMAGES))
    place = spoiled / "damaged"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(spoiled / "whole" / name, place)
    file, torch_file = place / LAYOUTS[name].files[0], name in ("medusa", "medusa-v2", "nxd")
    content = file.read_bytes()
    if damage == "truncated":
        file.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    elif damage == "garbage":
        file.write_bytes(data.draw(st.binary(max_size=60)) + content[data.draw(st.integers(0, 200)) :])
    elif damage == "config":
        (place / "config.json").write_bytes(
            data.draw(st.binary(max_size=20) | st.just(b'{"medusa": 3, "num_heads": []}'))
        )
    else:
        tensors = torch.load(file, weights_only=True) if torch_file else load_file(file)
        key = data.draw(st.sampled_from(sorted(tensors)))
        word = data.draw(
            st.text(min_size=1, max_size=12) | st.sampled_from(["0.0.linear.weight", "9.0.linear.bias"])
        )
        change = {
            "renamed": {word: tensors[key]},
            "extra": {word: torch.zeros(2)},
            "reshaped": {key: torch.zeros(1, 2)},
        }
        rest = {k: t.clone() for k, t in tensors.items() if k != key or damage in ("extra", "reshaped")}
        (torch.save if torch_file else save_file)(rest | change.get(damage, {}), file)
    for arguments in (
        ["inspect", place],
        ["convert", place, "--layout", "tgi", "-o", spoiled / "out", "--overwrite"],
    ):
        result = run_cli("heads", *arguments)
        assert result.exit_code in (0, 1) and "treeopt: unexpected" not in result.stderr, (
            damage,
            result.stderr,
        )
        lines = [line for line in result.stderr.splitlines() if line.startswith("treeopt:")]
        assert len(lines) == result.exit_code
        if damage in ("dropped", "reshaped") and key != "lm_head.weight":
            assert key in lines[0] and str(file) in lines[0]
