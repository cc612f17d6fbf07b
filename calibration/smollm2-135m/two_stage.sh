#!/usr/bin/env bash
# Medusa-1, direct Medusa-2 and two-stage Medusa-2 on the same answers, heads trained over equally many tokens.
#   bash calibration/smollm2-135m/two_stage.sh MODEL ANSWERS OUT
# ANSWERS is a generations file; 23,000 answer tokens take a quarter of an hour on two cores.
set -euo pipefail
here=$(dirname "$0") model=$1 answers=$2 out=$3
common=(--model "$model" --generations "$answers" --split all --num-heads 3 --batch-size 4 --precision bfloat16)

treeopt train medusa1 "${common[@]}" --run "$out" --epochs 2 --learning-rate 2e-3 --output "$out/medusa1/heads"
treeopt train medusa2 "${common[@]}" --run "$out" --no-warmup --epochs 2 --self-distill --output "$out/direct"
treeopt train medusa2 "${common[@]}" --run "$out" --warmup-epochs 1 --epochs 1 --self-distill --output "$out/two_stage"

for name in medusa1 direct two_stage; do
  run=(--run "$out/$name")
  source=(--model "$model")
  if [ -d "$out/$name/adapter" ]; then source+=(--adapter "$out/$name/adapter"); fi
  treeopt generate "${source[@]}" "${run[@]}" --prompts "$here/held_out.jsonl" --template chat --turns 1 \
    --max-new-tokens 128 --batch-size 80
  treeopt calibrate "${source[@]}" "${run[@]}" --heads "$out/$name/heads"
  treeopt grow "${run[@]}" --budget 16
  treeopt replay "${run[@]}" --tree "$out/$name/growth.json:16" --json > "$out/$name/replay.json"
done
