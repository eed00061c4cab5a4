# SPDX-License-Identifier: Apache-2.0
"""What drafts for a target, and the compositions that are worth a try with it."""

import json
import math
import struct
from dataclasses import dataclass, field


def names_in(folder):
    """The tensors of a Hugging Face directory."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        return set(json.loads(index.read_text())["weight_map"])
    with (folder / "model.safetensors").open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        return set(json.loads(file.read(size))) - {"__metadata__"}


def kind_of(folder):
    """The `--drafter` that a directory is for."""
    names = names_in(folder)
    for kind, tensors in (("streaming", ["streams.down.weight"]), ("early-exit", ["exit.down.weight"]),
                          ("medusa", ["medusa.0.weight", "0.0.linear.weight", "medusa_head.0.0.linear.weight"]),
                          ("eagle", ["model.fc.weight", "fc.weight", "mtp_layers.0.input_proj.weight"])):
        if names & set(tensors):
            return kind
    return "model"


@dataclass
class Drafter:
    """One that may be tried."""
    kind: str                 # --drafter
    words: str
    folder: object = None     # --draft
    ranked: bool = True       # its head takes a ranking
    clustered: bool = False   # and clusters
    layout: object = None     # of its head, once it was made
    router: object = None
    flags: dict = field(default_factory=dict)

    def base(self):
        of_folder = {"--draft": self.folder} if self.folder else {}
        return {"--drafter": self.kind, **of_folder, **self.flags}


def mean_speedup(measured):
    return math.exp(sum(math.log(m["speedup"]) for m in measured) / len(measured))


def behind_copies(tried, measured):
    """[(name, flags)] of the best chain by the target in four bits, asked where the text repeats nothing."""
    chains = [(name, flags) for name, flags in tried if flags["--drafter"] == "int4" and name in measured]
    if not chains:
        return []
    name, flags = max(chains, key=lambda of: mean_speedup(measured[of[0]]))
    rest = {flag: value for flag, value in flags.items() if flag != "--tree"}
    return [(f"what followed before, or {name}", {**rest, "--drafter": "cascade"})]


def compositions(drafter, ranking, vocabulary):
    """[(name, flags)] of a drafter."""
    if drafter.kind == "lookup":
        return [("lookup", drafter.base())]
    trees = {"medusa": ["fixed"], "eagle": ["chain", "dynamic"]}.get(drafter.kind, ["chain"])
    selectors = []
    if drafter.ranked:
        for part in (12, 6, 3):
            rows = max(vocabulary // part, 1)
            selectors.append((f"{rows} most frequent tokens",
                              {"--selector": f"frequency:{rows}", "--layout": ranking}))
    if drafter.router:
        for part in (24, 12, 6):
            rows = max(vocabulary // part, 1)
            selectors.append((f"{rows} routed rows",
                              {"--selector": "clustered", "--layout": drafter.layout, "--router": drafter.router,
                               "--budget": f"per-row:rows:{rows}"}))
    if not selectors:
        selectors.append(("its own vocabulary", {}))
    return [(f"{drafter.words}, {tree}, {words}", {**drafter.base(), "--tree": tree, **flags})
            for tree in trees for words, flags in selectors]
