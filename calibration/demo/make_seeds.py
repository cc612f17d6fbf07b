"""Seed prompts for the demo heads' training set: the beginnings of the functions that the backbone was trained on.

    python calibration/demo/make_seeds.py > /tmp/demo-seeds.jsonl

A seed is everything up to the `def` line, and the docstring where there is one, without the line break behind it:
the tokenizer joins that with the next line's indentation. The answers are the backbone's own.
The demo's prompts are others: no demo prompt occurs in this text (tests/demo/test_prompts.py).
"""

import json

import corpus


def beginning(document: str) -> str:
    """The lines of a document up to its `def` line, with the one-line docstring behind it."""
    lines = document.split("\n")
    end = next(i for i, line in enumerate(lines) if line.startswith(("def ", "async def "))) + 1
    if end < len(lines) and lines[end].startswith('    """'):
        end += 1
    return "\n".join(lines[:end])


def main() -> None:
    seeds = dict.fromkeys(beginning(text) for text in corpus.documents() if not corpus.is_held_out(text))
    for number, seed in enumerate(seeds):
        print(json.dumps({"id": f"seed-{number:05d}", "category": "seed", "prompt": seed}))


if __name__ == "__main__":
    main()
