"""`treeopt simulate`: latencies of a GPU that nobody has here, marked as such in everything made of them."""

import json

import pytest

from tests.cli.command_line import fail, following, run_cli, succeed
from treeopt.artifact import read_json
from treeopt.search.choice import read_choice
from treeopt.search.latency import LatencyProfile

MARK = "simulated, not measured"
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.json").write_text(json.dumps(CONFIG))
    (tmp_path / "table.json").write_text("[[0.6,0.2,0.1],[0.5,0.2,0.05],[0.4,0.1,0.05]]")
    return tmp_path


def write_measured(path, batches=(1, 2), sizes=(1, 2, 4, 8, 16, 32)):
    rows = [f"{b},100,{n},{1 + 0.01 * b * n + 0.2 * (n > 1)}" for b in batches for n in sizes]
    path.write_text("\n".join(["batch,context,tokens,latency_ms", *rows]) + "\n")
    return path


def test_the_paper_s_setting_is_the_default(here):
    result = succeed("simulate")
    assert MARK in result.stdout and "llama-7b on a100-80gb-pcie" in result.stdout
    assert following(result) == "choose --accuracy FILE --run results/llama-7b-a100-80gb-pcie".split()
    profile = LatencyProfile.read(here / "results/llama-7b-a100-80gb-pcie/latency.json")
    assert profile.simulated and profile.settings() == [(1, 128)]
    assert profile.sizes(1, 128) == list(range(2, 129))
    assert 5 < profile.plain_ms(1, 128) < 8, "12 GB at 1,935 GB/s"


def test_a_choice_from_it_is_marked_everywhere(here):
    run = here / "run"
    succeed("simulate", "--run", run, "--shape", "llama-33b", "--batch", "4,16", "--context", 1024)
    assert succeed("inspect", run / "latency.json").stdout.startswith(
        f"{MARK}: llama-33b on a100-80gb-pcie\n"
    )
    chosen = succeed("choose", "--accuracy", "table.json", "--run", run)
    assert "latencies are simulated, not measured" in chosen.stdout
    assert "latencies are simulated, not measured" in succeed("inspect", run / "choice.json").stdout
    assert all(choice.simulated for choice in read_choice(run / "choice.json"))
    four, sixteen = read_choice(run / "choice.json")
    assert four.tokens <= 32 and sixteen.tokens <= 8, "up to the cliff at batch x tokens = 128"


def test_faster_memory_is_faster_and_what_does_not_fit_is_said(here):
    plain = {}
    for gpu in ("a40", "a6000", "a100-80gb-pcie", "h100-sxm", "h200-sxm"):
        result = succeed("simulate", "--gpu", gpu, "--shape", "llama-33b", "--sizes", "64", "--json")
        profile = LatencyProfile.read(here / f"results/llama-33b-{gpu}/latency.json")
        plain[gpu] = profile.plain_ms(1, 128)
        assert json.loads(result.stdout)["simulated"] is True
        assert profile.sizes(1, 128) == [64]
        assert ("takes at least 59 GB" in result.stderr) == (gpu in ("a40", "a6000"))
    assert list(plain.values()) == sorted(plain.values(), reverse=True)


def test_a_config_is_a_shape_and_its_directory_a_name(here):
    (here / "mine").mkdir()
    (here / "tiny.json").rename(here / "mine" / "config.json")
    succeed("simulate", "--config", "mine/config.json", "--gpu", "a40")
    assert (here / "results/mine-a40/latency.json").is_file()
    assert "cannot be read" in fail("simulate", "--config", "none.json")


def test_a_short_profile_is_extended(here):
    write_measured(here / "measured.csv")
    arguments = ["simulate", "--fit", "measured.csv", "--config", "tiny.json"]
    result = succeed(*arguments, "--batch", "1,4", "--context", "100,300", "--sizes", "3,8,24")
    assert "sizes left out of the fit: 10 latencies, off by" in result.stdout
    assert "batches and contexts left out of the fit: 12 latencies, off by" in result.stdout
    profile = LatencyProfile.read(here / "results/tiny-fitted/latency.json")
    assert profile.simulated and profile.settings() == [(1, 100), (1, 300), (4, 100), (4, 300)]
    assert profile.median(1, 100, 8) == pytest.approx(1.28, rel=0.03)
    assert profile.median(1, 100, 3) == pytest.approx(1.23, rel=0.03)
    assert profile.median(4, 100, 8) == pytest.approx(1.52, rel=0.1)
    fitted = read_json(here / "results/tiny-fitted/latency.json")["provenance"]["fit"]
    assert fitted["held_out_sizes"]["largest"] < 0.05
    succeed(*arguments, "-o", "again.json")
    assert LatencyProfile.read(here / "again.json").settings() == [(1, 100), (2, 100)], "those of the profile"


def test_a_profile_of_other_heads_is_still_told_apart(here):
    """What was fitted to a model's latencies keeps its origin."""
    rows = [{"batch": 1, "context": 9, "tokens": n, "latency_ms": 1 + n / 50} for n in (1, 2, 4, 8, 16)]
    origin = {"model": "m", "model_sha256": "a" * 64, "heads_sha256": "b" * 64, "dtype": "float32"}
    LatencyProfile.from_rows(rows, provenance=origin).write(here / "run" / "latency.json")
    arguments = ["simulate", "--run", "run", "--fit", "run/latency.json", "--config", "tiny.json"]
    assert "has measured latencies, which a simulation does not replace" in fail(*arguments)
    result = succeed(*arguments, "-o", "run/simulated.json")
    assert following(result) == "choose --latency run/simulated.json --accuracy FILE --run run".split()
    made = LatencyProfile.read(here / "run" / "simulated.json").provenance
    assert made.items() >= origin.items()
    assert "is simulated itself" in fail(
        *arguments[:3], "--fit", "run/simulated.json", *arguments[5:], "-o", "x.json"
    )
    assert run_cli("simulate", "-o", "run/simulated.json").exit_code == 0, "a simulation may be made again"


def test_too_short_a_profile_is_refused(here):
    write_measured(here / "measured.csv", batches=[1], sizes=(1, 2, 4, 8))
    said = fail("simulate", "--fit", "measured.csv", "--config", "tiny.json")
    assert "4 sizes to fit; time at least 5" in said
    assert not (here / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--fit", "measured.csv"], "name the measured model's shape"),
        (["--shape", "llama-7b", "--config", "tiny.json"], "give one of them"),
        (["--gpu", "abacus"], "'abacus' is not one of"),
        (["--batch", "0"], "not a list of whole numbers from 1"),
    ],
)
def test_wrong_usage(arguments, says):
    assert says in fail("simulate", *arguments, status=2)
