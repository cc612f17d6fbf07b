#!/usr/bin/env bash
# Medusa-1, direct Medusa-2 and two-stage Medusa-2 on the same answers, heads trained over equally many tokens; and a
# gentle two-stage one, whose backbone learns at a fifth of the rate while the heads keep theirs.
#   bash calibration/smollm2-135m/two_stage.sh MODEL ANSWERS OUT
# ANSWERS is a generations file; 47,000 answer tokens take the better part of an hour on one core, and 11 GB.
set -euo pipefail
here=$(dirname "$0") model=$1 answers=$2 out=$3
common=(--model "$model" --generations "$answers" --split all --num-heads 3 --batch-size 4 --precision bfloat16)

treeopt train medusa1 "${common[@]}" --run "$out" --epochs 2 --learning-rate 2e-3 --output "$out/medusa1/heads"
treeopt train medusa2 "${common[@]}" --run "$out" --no-warmup --epochs 2 --self-distill --output "$out/direct"
treeopt train medusa2 "${common[@]}" --run "$out" --warmup-epochs 1 --epochs 1 --self-distill --output "$out/two_stage"
treeopt train medusa2 "${common[@]}" --run "$out" --warmup-epochs 1 --epochs 1 --self-distill \
  --learning-rate 1e-4 --heads-lr-factor 20 --output "$out/gentle"

for name in medusa1 direct two_stage gentle; do
  run=(--run "$out/$name")
  source=(--model "$model")
  if [ -d "$out/$name/adapter" ]; then source+=(--adapter "$out/$name/adapter"); fi
  treeopt generate "${source[@]}" "${run[@]}" --prompts "$here/held_out.jsonl" --template chat --turns 1 \
    --max-new-tokens 128 --batch-size 80
  treeopt calibrate "${source[@]}" "${run[@]}" --heads "$out/$name/heads"
  treeopt grow "${run[@]}" --budget 16
  treeopt replay "${run[@]}" --tree "$out/$name/growth.json:16" --json > "$out/$name/replay.json"
done
python "$here/two_stage.py" "$out" > "$out/table.jsonl"
