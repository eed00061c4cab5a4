#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The whole chain from packages to shipped files. Every stage resumes: run it again after an interruption.
#
#   ./train.sh [minutes for the target] [for the draft's first stage] [for its second] [for the EAGLE head]
#              [for the Medusa heads] [for the exit head] [for the streams] [for the masked model] [for its head]
#
# Needs a Debian 12 system (apt-get, dpkg), the packages of requirements.txt in the Python on the path, and
# make_layout of the examples, on the path or named by MAKE_LAYOUT.
# With CUDA the same recipe runs on the GPU; larger budgets and PER_DOMAIN=4 use it better.
set -e
cd "$(dirname "$0")"
MODELS=../models
WORK=${HUNCH_TRAIN_DIR:-$HOME/.cache/hunch-train}
PER_DOMAIN=${PER_DOMAIN:-1}
mkdir -p "$WORK"

[ -d "$WORK/corpus/train" ] || python -m text.corpus --work "$WORK"
[ -f "$WORK/tokenizer.model" ] || python -m text.tokenizer --work "$WORK"
python -m llama.train_target --work "$WORK" --minutes "${1:-175}" --per-domain "$PER_DOMAIN"
python export.py --work "$WORK" --model target --out "$MODELS/target"
python -m llama.train_draft --work "$WORK" --minutes "${2:-40}" --stage text --per-domain "$PER_DOMAIN"
# What the drafters learn from: the text, and what the target makes of it.
python -m llama.generate --work "$WORK"
python -m llama.train_draft --work "$WORK" --minutes "${3:-65}" --stage distil
python export.py --work "$WORK" --model draft --out "$MODELS/draft"
python -m eagle.train --work "$WORK" --minutes "${4:-60}"
python export.py --work "$WORK" --model eagle --out "$MODELS/eagle"
python -m medusa.train --work "$WORK" --minutes "${5:-26}"
python export.py --work "$WORK" --model medusa --out "$MODELS/medusa"
python -m early_exit.train --work "$WORK" --minutes "${6:-4}"
python export.py --work "$WORK" --model exit --out "$MODELS/exit"
python -m streams.train --work "$WORK" --minutes "${7:-50}"
python export.py --work "$WORK" --model streams --out "$MODELS/streams"
python -m masked.train --work "$WORK" --minutes "${8:-150}" --per-domain "$PER_DOMAIN"
python export.py --work "$WORK" --model masked --out "$MODELS/masked"
python -m canvas_head.train --work "$WORK" --minutes "${9:-80}"
python export.py --work "$WORK" --model canvas_head --out "$MODELS/canvas_head"
python -m router.record --work "$WORK" --drafter eagle
# What selectors are made of: of all domains, and of all but one.
for folder in "$MODELS" "$MODELS/left_out"; do
  left_out=$([ "$folder" = "$MODELS" ] || echo "--leave-out man_de")
  mkdir -p "$folder"
  python -m text.frequency --work "$WORK" $left_out --out "$folder/frequency.safetensors"
  "${MAKE_LAYOUT:-make_layout}" --model "$MODELS/target" --clusters 256 --core 300 --rare 3:259 \
    --frequency "$folder/frequency.safetensors" --out "$folder/layout.safetensors"
  python -m router.train --work "$WORK" --drafter eagle $left_out --layout "$folder/layout.safetensors" \
    --out "$folder/router.safetensors" --minutes $([ "$folder" = "$MODELS" ] && echo 9 || echo 4)
done
# DynaSpec as it was published: no core, and a router that reads what is known before the drafter's pass.
mkdir -p "$MODELS/paper"
"${MAKE_LAYOUT:-make_layout}" --model "$MODELS/target" --clusters 256 --out "$MODELS/paper/layout.safetensors"
python -m router.train --work "$WORK" --drafter eagle --reads before --labels top --loss each \
  --layout "$MODELS/paper/layout.safetensors" --out "$MODELS/paper/router.safetensors" --minutes 12
# Speculative Streaming as it was published: one linear map, no map of the emitted token, an exit where streams begin.
python -m streams.train --work "$WORK" --published --map-rank 128 --adapter-rank 64 --begin "$MODELS/streams" \
  --text-only --name streams_published --minutes 80
python export.py --work "$WORK" --model streams --name streams_published --out "$MODELS/paper/streams"
python -m early_exit.train --work "$WORK" --layer 4 --text-only --name exit_4 --minutes 5
python export.py --work "$WORK" --model exit --name exit_4 --out "$MODELS/paper/exit"
python golden.py
python -m masked.golden
python -m llama.evaluate
python -m masked.evaluate
python -m router.evaluate --depths 4 --windows 3
python evaluate_drafters.py --windows 2
python -m llama.generate --work "$WORK" --part validation --tokens 30000
python evaluate_drafters.py --work "$WORK" --text generated --windows 4
