"""How long `import treeopt` and `treeopt --help` take, and that neither loads torch.

python benchmarks/startup.py
"""

import json
import statistics
import subprocess
import sys
import time

REPEATS = 15
LOADED = "import sys; {}; print('torch' in sys.modules)"


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    python = sys.executable
    commands = {
        "python": [python, "-c", "pass"],
        "import_treeopt": [python, "-c", "import treeopt"],
        "treeopt_help": [python, "-m", "treeopt", "--help"],
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPEATS):
        for name, command in commands.items():
            samples[name].append(seconds(command))
    result: dict[str, object] = {f"{name}_s": round(statistics.median(s), 4) for name, s in samples.items()}
    for name, code in {
        "import": "import treeopt",
        "help": "from click.testing import CliRunner; from treeopt.cli import main; "
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0",
    }.items():
        output = subprocess.run(
            [python, "-c", LOADED.format(code)], check=True, capture_output=True, text=True
        )
        result[f"torch_loaded_by_{name}"] = output.stdout.strip() == "True"
    print(json.dumps(result))


if __name__ == "__main__":
    main()
