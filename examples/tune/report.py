# SPDX-License-Identifier: Apache-2.0
"""The page of a run: what was measured, with pictures."""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import svg  # noqa: E402

CURVES = (("static", "most frequent", "#1f77b4", ""), ("routed", "routed", "#d62728", ""), ("oracle", "oracle", "#7f7f7f", "4 3"))
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 230, 60, 40, 70


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def of_temperature(measured, temperature, key):
    return mean([m[key] for m in measured if m["temperature"] == temperature])


def draw_coverage(path, coverages, vocabulary):
    """How much of the target's law shortlists hold, over their rows."""
    parts = []
    for i, (words, of) in enumerate(coverages.items()):
        left = LEFT + i * (WIDTH + GAP)
        least = min(law for name, *_ in CURVES if name in of for law in of[name]["law"])
        low = max(0.0, math.floor(10 * least) / 10)
        panel = svg.Panel(left, TOP, WIDTH, HEIGHT, (0, 52), (low, 1.0))
        panel.titles(words, "rows, % of the vocabulary", "" if i else "kept of the target's law")
        step = 0.1 if low < 0.8 else 0.05
        panel.ticks((10, 20, 30, 40, 50), [low + step * k for k in range(1, int((1.001 - low) / step) + 1)], y_format="{:.2f}")
        shown = [curve for curve in CURVES if curve[0] in of]
        for name, _, colour, dash in shown:
            panel.curve([(100 * rows / vocabulary, law) for rows, law in zip(of[name]["rows"], of[name]["law"])], colour, dash)
        panel.legend([curve[1:] for curve in shown], left + WIDTH - 10, TOP + HEIGHT - 16)
        parts += panel.parts
    svg.write(path, LEFT + len(coverages) * (WIDTH + GAP), TOP + HEIGHT + 55, parts)


def draw_speed(path, final):
    """Tokens a second of the finalists, and of plain decoding, at both temperatures."""
    rows = [("plain decoding", [of_temperature(next(iter(final.values())), t, "plain") for t in "01"])]
    rows += [(name, [of_temperature(m, t, "rate") for t in "01"]) for name, m in final.items()]
    most = max(value for _, values in rows for value in values)
    parts, scale = [], 360 / most
    for i, (name, values) in enumerate(rows):
        top = 30 + 46 * i
        parts.append(svg.text(400, top + 18, name, "end"))
        for k, (value, colour) in enumerate(zip(values, ("#1f77b4", "#d62728"))):
            parts.append(f'<rect x="410" y="{top + 16 * k}" width="{value * scale:.1f}" height="14" fill="{colour}"/>')
            parts.append(svg.text(416 + value * scale, top + 12 + 16 * k, f"{value:.0f}", "start"))
    parts.append(svg.text(410, 18, "tokens a second, T = 0 (blue) and T = 1 (red)", "start"))
    svg.write(path, 860, 40 + 46 * len(rows), parts)


def draw_predictions(path, first, final):
    """Predicted against measured, of every run."""
    points = [(m["speedup"], m["predicted"]) for of in (first, final) for ms in of.values() for m in ms]
    most = math.ceil(10 * max(max(point) for point in points)) / 10
    least = math.floor(10 * min(min(point) for point in points)) / 10
    panel = svg.Panel(LEFT, TOP, WIDTH, WIDTH, (least, most), (least, most))
    panel.titles("speed-up of every run", "measured", "predicted")
    ticks = [round(least + (most - least) * k / 4, 2) for k in range(5)]
    panel.ticks(ticks, ticks)
    panel.parts.append(svg.line(panel.x(least), panel.y(least), panel.x(most), panel.y(most), "#999"))
    panel.parts += [f'<circle cx="{panel.x(x):.1f}" cy="{panel.y(y):.1f}" r="3" fill="#d62728" fill-opacity="0.5"/>'
                    for x, y in points]
    svg.write(path, LEFT + WIDTH + 30, TOP + WIDTH + 55, panel.parts)


def table(measured):
    lines = ["| composition | speed-up, T = 0 | T = 1 | predicted, T = 0 | T = 1 | tokens a step, T = 0 | T = 1 |",
             "|---|---|---|---|---|---|---|"]
    for name, of in sorted(measured.items(), key=lambda item: -mean([m["speedup"] for m in item[1]])):
        cells = [f"{of_temperature(of, t, key):.2f}" for key in ("speedup", "predicted", "length") for t in "01"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_report(folder, found):
    first, final, sizes, about = found["first"], found["final"], found["sizes"], found["about"]
    files = f"{sizes['files']} file" + ("s" if sizes["files"] != 1 else "")
    left_out = f" ({sizes['left_out']:,} bytes of large files were left out)" if sizes["left_out"] else ""
    lines = [f"# {found['model']}" + (f" and {found['draft']}" if found["draft"] else ""), "",
             f"**{found['said'][0].upper()}{found['said'][1:]}.** In this folder: `generate --preset preset.json`", "",
             f"Measured on {about['date']} with {about['threads']} thread{'s' if about['threads'] != 1 else ''} of the host "
             f"({about['machine']}), one request at a time: {about['prompts']} prompts, {about['tokens']} tokens after each, "
             f"{about['rounds']} rounds of plain and speculative decoding in turn, T = 0 and T = 1. Text: {files}, "
             f"{sizes['train']:,} characters to learn from, {sizes['heldout']:,} to take prompts from{left_out}. Vocabulary: "
             f"{found['vocabulary']:,} tokens. Every composition is exact; at T = 0 every text was held against that of plain "
             "decoding.", "",
             "## Compared", "", table(final), "", "![tokens a second](speed.svg)", "",
             "## Tried", "", "Two of the prompts, one round.", "", table(first), "",
             "![predicted against measured](predicted.svg)", ""]
    draw_speed(folder / "speed.svg", final)
    draw_predictions(folder / "predicted.svg", first, final)
    if found["coverages"]:
        lines += ["## Shortlists", "",
                  "What shortlists hold of the target's law along the held-out text, where something was drafted: the most "
                  "frequent tokens, clusters that the router chooses, and those that one would choose who knew the law.", "",
                  "![kept share over rows](coverage.svg)", ""]
        draw_coverage(folder / "coverage.svg", found["coverages"], found["vocabulary"])
    if found["refused"]:
        lines += ["## Not tried", ""] + [f"- {name}: {why.splitlines()[-1]}" for name, why in found["refused"].items()] + [""]
    (folder / "report.md").write_text("\n".join(lines), encoding="utf-8")
