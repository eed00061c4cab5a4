#!/bin/sh
# The whole chain from packages to shipped files. Every stage resumes: run it again after an interruption.
#
#   ./train.sh [minutes for the target] [minutes for each of the draft's two stages]
#
# Needs a Debian 12 system (apt-get, dpkg) and the packages of requirements.txt in the Python on the path.
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
for stage in text distil; do
  python train_draft.py --work "$WORK" --minutes "${2:-40}" --stage $stage --per-domain "$PER_DOMAIN"
done
python export.py --work "$WORK" --model draft --out draft
python frequency.py --work "$WORK"
python golden.py
python evaluate.py
