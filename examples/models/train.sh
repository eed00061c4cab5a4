#!/bin/sh
# The whole chain from packages to shipped files. Every stage resumes: run it again after an interruption.
#
#   ./train.sh [minutes for the target] [minutes for each of the draft's two stages] [minutes for the EAGLE head]
#              [minutes for the Medusa heads] [minutes for the exit head] [minutes for the streams]
#              [minutes for the masked model] [minutes for its head]
#
# Needs a Debian 12 system (apt-get, dpkg), the packages of requirements.txt in the Python on the path, and
# make_layout of the examples, on the path or named by MAKE_LAYOUT.
# With CUDA the same recipe runs on the GPU; larger budgets and PER_DOMAIN=4 use it better.
set -e
cd "$(dirname "$0")"
WORK=${HUNCH_TRAIN_DIR:-$HOME/.cache/hunch-train}
PER_DOMAIN=${PER_DOMAIN:-1}
mkdir -p "$WORK"

[ -d "$WORK/corpus/train" ] || python corpus.py --work "$WORK"
[ -f "$WORK/tokenizer.model" ] || python tokenizer.py --work "$WORK"
python train_target.py --work "$WORK" --minutes "${1:-175}" --per-domain "$PER_DOMAIN"
python export.py --work "$WORK" --model target --out target
python train_draft.py --work "$WORK" --minutes "${2:-40}" --stage text --per-domain "$PER_DOMAIN"
# What the drafters learn from: the text, and what the target makes of it.
python generate_text.py --work "$WORK"
python train_draft.py --work "$WORK" --minutes "${2:-40}" --stage distil
python export.py --work "$WORK" --model draft --out draft
python train_eagle.py --work "$WORK" --minutes "${3:-60}"
python export.py --work "$WORK" --model eagle --out eagle
python train_adapter.py --work "$WORK" --minutes "${4:-26}" --model medusa
python export.py --work "$WORK" --model medusa --out medusa
python train_adapter.py --work "$WORK" --minutes "${5:-4}" --model exit
python export.py --work "$WORK" --model exit --out exit
python train_adapter.py --work "$WORK" --minutes "${6:-30}" --model streams
python export.py --work "$WORK" --model streams --out streams
python train_masked.py --work "$WORK" --minutes "${7:-150}" --per-domain "$PER_DOMAIN"
python export.py --work "$WORK" --model masked --out masked
python train_canvas_head.py --work "$WORK" --minutes "${8:-80}"
python export.py --work "$WORK" --model canvas_head --out canvas_head
python record_router.py --work "$WORK" --drafter eagle
# What selectors are made of: of all domains, and of all but one.
for folder in . left_out; do
  left_out=$([ $folder = . ] || echo "--leave-out man_de")
  mkdir -p $folder
  python frequency.py --work "$WORK" $left_out --out $folder/frequency.safetensors
  "${MAKE_LAYOUT:-make_layout}" --model target --clusters 256 --core 300 --rare 3:259 \
    --frequency $folder/frequency.safetensors --out $folder/layout.safetensors
  python train_router.py --work "$WORK" --drafter eagle $left_out --layout $folder/layout.safetensors \
    --out $folder/router.safetensors --minutes $([ $folder = . ] && echo 9 || echo 4)
done
python golden.py
python golden_masked.py
python evaluate.py
python evaluate_masked.py
python evaluate_router.py --depths 4 --windows 3
python evaluate_drafters.py --windows 2
python generate_text.py --work "$WORK" --part validation --tokens 30000
python evaluate_drafters.py --work "$WORK" --text generated --windows 4
