# SPDX-License-Identifier: Apache-2.0
"""Where the shipped files are, and what they agree on."""
from pathlib import Path

MODELS = Path(__file__).resolve().parent.parent / "models"
TOKENIZER = MODELS / "target" / "tokenizer.model"
HELDOUT = MODELS / "heldout"
VOCABULARY = 32000  # of the tokenizer, and so of all models
