# SPDX-License-Identifier: Apache-2.0
"""Where the shipped files are."""
from pathlib import Path

MODELS = Path(__file__).resolve().parent.parent / "models"
TOKENIZER = MODELS / "target" / "tokenizer.model"
HELDOUT = MODELS / "heldout"
