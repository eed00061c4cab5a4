# SPDX-License-Identifier: Apache-2.0
"""Writes the layout of domain-specific shortlists: clusters that are the vocabularies of domains.

    python -m text.domains --work DIR --out FILE [--parts N] [--core N]

A token belongs to the domain of the training text in which its share is the largest; the tokens of a domain are
cut into parts of about one size, the most frequent first, and a part is a cluster. The most frequent tokens of all
domains are the core, in every shortlist. A router that is trained for this layout (router/train.py) tells from the
context of which domain a text is, and how far down its list the next token may lie.
"""
import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import checkpoint
import fingerprints
from shipped import MODELS, VOCABULARY
from text.frequency import BYTE_PIECES, ranking


def shares(folder):
    """[domains, vocabulary] of the tokens of each domain."""
    counts = [np.bincount(np.fromfile(path, np.int32), minlength=VOCABULARY) for path in sorted(folder.glob("*.int32"))]
    return np.stack([c / c.sum() for c in counts])


def layout(folder, core, parts):
    """row_token [vocabulary] and cluster_begin [domains * parts + 1] of such a layout."""
    of_domain = shares(folder)
    ranked = ranking(folder)
    first = ranked[~np.isin(ranked, BYTE_PIECES)][:core]
    rows, begin = [first], [core]
    domain = of_domain.argmax(0)
    domain[of_domain.sum(0) == 0] = -1
    unseen = np.flatnonzero(domain < 0)
    domain[unseen] = np.arange(len(unseen)) % len(of_domain)  # somewhere, at the end of a list
    domain[first] = -1
    for d, share in enumerate(of_domain):
        own = np.flatnonzero(domain == d)
        own = own[np.argsort(-share[own], kind="stable")]
        for part in np.array_split(own, parts):
            rows.append(part)
            begin.append(begin[-1] + len(part))
    return np.concatenate(rows).astype(np.int32), np.array(begin, np.int32)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--models", type=Path, default=MODELS)
    arguments.add_argument("--core", type=int, default=300)
    arguments.add_argument("--parts", type=int, default=8, help="of a domain")
    options = arguments.parse_args()
    rows, begin = layout(options.work / "tokens" / "train", options.core, options.parts)
    made_for = checkpoint.made_for(options.models / "target")
    save_file({"row_token": rows, "cluster_begin": begin}, options.out,
              metadata={"format": "hunch.vocab_layout", **made_for})


if __name__ == "__main__":
    main()
