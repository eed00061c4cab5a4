# SPDX-License-Identifier: Apache-2.0
"""Writes the page of the suite `evaluate`, with its pictures; needs matplotlib.

    bench/run.sh evaluate --json evaluation.json
    python3 bench/evaluate/plot.py evaluation.json docs

makes results/evaluation.md and images/evaluation-*.svg in docs.
"""

import json
import sys
from pathlib import Path

TEMPERATURES = (0, 1)
CLASSES = ("low", "medium", "high")
CLASS_COLOURS = {"low": "#2ca02c", "medium": "#ff7f0e", "high": "#d62728"}


class Results:
    """What the suite has written."""

    def __init__(self, path):
        written = json.loads(Path(path).read_text(encoding="utf-8"))
        try:
            self.categories = written["categories"]
            self.requests = written["requests"]
            (self.setting,) = written["setting"]
        except (KeyError, ValueError):
            raise SystemExit(f"{path}: not what `bench/run.sh evaluate` writes")
        self.values = {row["name"]: row["value"] for row in written["rows"]}
        presets = list(dict.fromkeys(request["preset"] for request in self.requests))
        self.canvases = [p for p in presets if f"{p}, T = 0, mean: passes per token" in self.values]
        self.texts = [p for p in presets if p not in self.canvases]

    def value(self, preset, temperature, of, what):
        """Of a category, a class of entropy, the mean, or the worst category."""
        return self.values[f"{preset}, T = {temperature}, {of}: {what}"]

    def names(self):
        return [category["name"] for category in self.categories]

    def positions(self, preset, temperature):
        """The share of drafts that is accepted at position 1, 2, ... once those before were; as far as is known."""
        found = []
        while (name := f"{preset}, T = {temperature}, mean: acceptance at position {len(found) + 1}") in self.values:
            found.append(self.values[name])
        return found


def figure(value):
    return f"{value:.2f}"


def percent(value):
    return f"{100 * value:.0f} %"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def by_category(results, presets, temperature, what, error=False):
    """A row for each preset: every category, the classes, the mean of all, and the worst. Presets that draft the same
    tokens at another cost have one where costs do not count."""
    rows = {}
    for preset in presets:
        cells = [figure(results.value(preset, temperature, name, what))
                 for name in [*results.names(), *(f"{name} entropy" for name in CLASSES)]]
        mean = "**" + figure(results.value(preset, temperature, "mean", what)) + "**"
        if error:
            mean += " ± " + figure(results.value(preset, temperature, "mean", what + ", standard error"))
        worst = figure(results.value(preset, temperature, "worst category", what))
        rows.setdefault((*cells, mean, worst), []).append(f"`{preset}`")
    return table(["preset", *results.names(), *CLASSES, "mean", "worst"],
                 [[", ".join(names), *cells] for cells, names in rows.items()])


def at_both(results, presets, what, error=False):
    return "\n".join(f"At T = {t}:\n\n{by_category(results, presets, t, what, error)}" for t in TEMPERATURES)


def positions(results, presets):
    rows, longest = [], 0
    for preset in presets:
        for t in TEMPERATURES:
            found = results.positions(preset, t)
            longest = max(longest, len(found))
            rows.append([f"`{preset}`", str(t), *map(percent, found)])
    rows = [row + [""] * (2 + longest - len(row)) for row in rows]
    return table(["preset", "T", *(str(i + 1) for i in range(longest))], rows)


def repetition(results):
    rows = []
    for preset in ["plain", *results.texts, *results.canvases]:
        cells = [percent(results.value(preset, t, of, "repeated 4-grams"))
                 for t in TEMPERATURES for of in ("mean", "worst category")]
        rows.append([f"`{preset}`", *cells])
    return table(["preset", "T = 0", "worst category", "T = 1", "worst category"], rows)


def amount(count, of):
    return f"{count} {of}" if count == 1 else f"{count} {of}s"


def page(results):
    categories = table(["category", "entropy, nats", "class"],
                       [[c["name"], figure(c["entropy"]), c["entropy_class"]] for c in results.categories])
    text, canvas = results.setting["text"], results.setting["canvas"]

    same = min(results.value(preset, 0, "mean", "texts that are those of plain decoding")
               for preset in [*results.texts, *results.canvases])

    def extent(of):
        return (f"{amount(of['prompts'], 'prompt')} of every category, {amount(of['new_tokens'], 'token')} each, "
                f"{amount(of['rounds'], 'round')}")

    return f"""# Evaluation

Every preset of `generate` on every kind of text that the shipped models know, by the suite [`evaluate`](../benchmarks.md#evaluation). [`plot.py`](../../bench/evaluate/plot.py) writes this page and its pictures from what the suite measured:

```sh
bench/run.sh evaluate --json evaluation.json
python3 bench/evaluate/plot.py evaluation.json docs
```

Texts: {extent(text)}; canvases: {extent(canvas)}; models on {amount(results.setting["threads"], "thread")} of an {results.setting["processor"]}, compiled for {results.setting["instructions"]}. All presets are lossless: at T = 0 {percent(same)} of the texts are those of plain decoding.

## Categories

Held-out texts, ordered by the mean entropy of the target's law along them. In the tables below, low, medium and high are the means of these classes.

{categories}
## Tokens per step

With drafts as long as the preset allows. This depends on models and texts, not on the machine.

<img src="../images/evaluation-lengths.svg" alt="Tokens per step and speed-up over plain decoding of every preset: a dot for each category, coloured by its class of entropy, and a bar for the mean." width="100%">

{at_both(results, results.texts, "tokens per step")}
<img src="../images/evaluation-entropy.svg" alt="Tokens per step over the entropy of the category, a line for each preset, at T = 0 and T = 1." width="100%">

## Acceptance by position

The share of drafts that is accepted at a position, of those that are drafted there after accepted ones, where there are enough of these.

<img src="../images/evaluation-positions.svg" alt="Acceptance over the position in the draft, a line for each preset, at T = 0 and T = 1." width="100%">

{positions(results, results.texts)}
## Speed-up

Over plain decoding, in turn with it, with drafts as long as [pays](../policies/lengths.md#meter). The error is that of the clock: how much rounds of a text differ. Each category has a meter of its own; what another one would have begun with is not in it, so that presets that write and draft the same, as `fr-spec` and `vocab-trim` do, differ by more. Where a category is written at the speed of plain decoding by a preset that makes others half as fast again, the meter's first drafts were unlucky, and reading a prompt of these short texts costs a drafter with a cache more than tries may.

{at_both(results, results.texts, "speed-up", error=True)}
## Repeated 4-grams

The share of 4-grams that occurred before in the same text. At T = 0 texts are those of plain decoding, and texts of models of this size repeat themselves; at T = 1 they are other draws of the same law.

{repetition(results)}
## Canvases

Masked diffusion models that draft for themselves or by a head, beside [one token a pass](../policies/diffusion.md): passes of the model per token with as many drafts as there can be,

{at_both(results, results.canvases, "passes per token")}
the speed-up with the number of drafts that `generate` chooses,

{at_both(results, results.canvases, "speed-up", error=True)}
and acceptance by position.

{positions(results, results.canvases)}"""


def style():
    """matplotlib, drawing the same file each time."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("plot.py: the pictures need matplotlib (Debian: python3-matplotlib)")
    matplotlib.use("svg")
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "hunch", "font.family": "sans-serif", "font.size": 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd",
        "axes.axisbelow": True, "legend.frameon": False,
    })
    from matplotlib import pyplot
    return pyplot


def save(picture, path):
    picture.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


def colours(pyplot, presets):
    return dict(zip(presets, pyplot.get_cmap("tab20").colors))


def draw_lengths(results, pyplot, path):
    """A dot for every category, a bar for the mean: tokens per step and speed-up."""
    presets = list(reversed(results.texts))
    picture, panels = pyplot.subplots(2, 2, sharex="col", sharey=True, figsize=(10, 0.5 + 0.56 * len(presets)), layout="constrained")
    for row, t in enumerate(TEMPERATURES):
        for panel, what in zip(panels[row], ("tokens per step", "speed-up")):
            panel.grid(axis="y", visible=False)
            panel.axvline(1, color="#333333", linewidth=0.8, linestyle=":")
            for y, preset in enumerate(presets):
                panel.barh(y, results.value(preset, t, "mean", what), 0.7, color="#c6d4e8")
            for name in CLASSES:
                of_class = [c["name"] for c in results.categories if c["entropy_class"] == name]
                dots = [(results.value(p, t, c, what), y) for y, p in enumerate(presets) for c in of_class]
                panel.scatter(*zip(*dots), s=13, color=CLASS_COLOURS[name], alpha=0.85, linewidths=0,
                              label=f"{name} entropy", zorder=3)
            panel.set_title(f"{what}, T = {t}", fontsize=10)
            panel.set_yticks(range(len(presets)), presets)
            panel.set_xlim(left=0)
    panels[0][0].legend(loc="lower right")
    save(picture, path)


def over_both(results, pyplot, path, points, across, upwards):
    """A panel for each temperature, with a line through points(preset, T) = (x, y) of each preset; one legend.
    Presets with the same points, which draft the same tokens at another cost, have one line."""
    shown = {}
    for preset in results.texts:
        shown.setdefault(str([points(preset, t) for t in TEMPERATURES]), []).append(preset)
    picture, panels = pyplot.subplots(1, 2, sharey=True, figsize=(10, 4), layout="constrained")
    tints = colours(pyplot, results.texts)
    for panel, t in zip(panels, TEMPERATURES):
        for presets in shown.values():
            panel.plot(*points(presets[0], t), color=tints[presets[0]], marker="o", markersize=3, linewidth=1.2,
                       label=", ".join(presets))
        panel.set_title(f"T = {t}", fontsize=10)
        panel.set_xlabel(across)
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel(upwards)
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    save(picture, path)


def draw_entropy(results, pyplot, path):
    entropies = [c["entropy"] for c in results.categories]

    def points(preset, t):
        return entropies, [results.value(preset, t, name, "tokens per step") for name in results.names()]

    over_both(results, pyplot, path, points, "mean entropy of the category, nats", "tokens per step")


def draw_positions(results, pyplot, path):
    def points(preset, t):
        shares = results.positions(preset, t)
        return list(range(1, len(shares) + 1)), shares

    over_both(results, pyplot, path, points, "position in the draft", "accepted, once those before were")


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    results, docs = Results(arguments[0]), Path(arguments[1])
    (docs / "images").mkdir(parents=True, exist_ok=True)
    (docs / "results").mkdir(parents=True, exist_ok=True)
    pyplot = style()
    draw_lengths(results, pyplot, docs / "images" / "evaluation-lengths.svg")
    draw_entropy(results, pyplot, docs / "images" / "evaluation-entropy.svg")
    draw_positions(results, pyplot, docs / "images" / "evaluation-positions.svg")
    (docs / "results" / "evaluation.md").write_text(page(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
