# SPDX-License-Identifier: Apache-2.0
"""What drafts for a target, and the compositions that are worth a try with it."""

import json
import math
import struct
from dataclasses import dataclass, field


def names_in(folder):
    """The tensors of a directory: of its shards, of model.safetensors, or of the only such file. None where there are
    none that can be read."""
    index, usual, found = folder / "model.safetensors.index.json", folder / "model.safetensors", sorted(folder.glob("*.safetensors"))
    try:
        if index.exists():
            return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        if not usual.exists() and len(found) != 1:
            return None
        with (usual if usual.exists() else found[0]).open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            return set(json.loads(file.read(size))) - {"__metadata__"}
    except (ValueError, KeyError, struct.error, MemoryError, OverflowError):
        return None


def kind_of(folder):
    """The `--drafter` that a directory is for; None where no weights are found."""
    names = names_in(folder)
    if names is None:
        return None
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


def error_of_speedup(measured):
    """The standard error of that mean: texts differ, and so do two runs along one text."""
    logs, n = [math.log(m["speedup"]) for m in measured], len(measured)
    center = sum(logs) / n
    return math.exp(center) * math.sqrt(sum((x - center) ** 2 for x in logs) / max(n - 1, 1) / n)


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
    selectors.append(("all tokens", {"--selector": "full"}) if drafter.ranked else ("its own vocabulary", {}))
    return [(f"{drafter.words}, {tree}, {words}", {**drafter.base(), "--tree": tree, **flags})
            for tree in trees for words, flags in selectors]
