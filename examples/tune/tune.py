# SPDX-License-Identifier: Apache-2.0
"""Finds the fastest exact composition for a pair of models on this machine: see tune.sh.

Makes a ranking of the vocabulary from the text, clusters of the heads that draft, and a router for each, from what it
really drafts at temperatures 0 and 1; then tries the compositions that make sense side by side along text that nothing
was made from, and writes preset.json and report.md.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from candidates import Drafter, behind_copies, compositions, kind_of, mean_speedup  # noqa: E402
from report import write_report  # noqa: E402
from work import Failed, Work, fail, fingerprint  # noqa: E402

LEAST_TEXT = 20_000       # bytes
MOST_TEXT = 64 << 20
HELD_OUT = 0.1            # of every file, its end
TEMPERATURES = ("0", "1")
FINALISTS = 4
PROMPT = 600              # bytes, and no more than a quarter of the context: a token is a byte at least
NEW_TOKENS = 96           # no more than a quarter, too


def arguments():
    parser = argparse.ArgumentParser(prog="tune.sh", description="the fastest exact composition for a pair of models")
    parser.add_argument("--model", type=Path, required=True, help="the target: a Hugging Face directory")
    parser.add_argument("--draft", type=Path, help="what may draft for it: a model, or heads of the target")
    parser.add_argument("--text", type=Path, required=True, help="a text like those to come; or a folder of .txt files")
    parser.add_argument("--out", type=Path, required=True, help="where everything goes")
    parser.add_argument("--threads", type=int, default=0, help="of the models (default: half of the processors)")
    parser.add_argument("--quick", action="store_true", help="a quarter of the texts: for a first look")
    parser.add_argument("--programs", type=Path, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in ("model", "draft", "text"):
        path = getattr(options, name)
        if path and not path.exists():
            parser.error(f"--{name}: {path} does not exist")
        if path:
            setattr(options, name, path.resolve())
    options.out = options.out.resolve()
    return options


def split(options, work):
    """The text in two parts; how many bytes each has."""
    files = sorted(options.text.glob("*.txt")) if options.text.is_dir() else [options.text]
    if not files:
        raise Failed(f"--text: {options.text} has no .txt file")
    train, held_out = [], []
    for file in files:
        text = file.read_bytes()[:MOST_TEXT // len(files)].decode(errors="replace")
        cut = int(len(text) * (1 - HELD_OUT))
        train.append(text[:cut])
        held_out.append(text[cut:])
    if sum(map(len, train)) < LEAST_TEXT:
        raise Failed(f"--text: {sum(map(len, train))} characters are too few to learn from; at least {LEAST_TEXT}")
    folder = work.folder / "text"
    folder.mkdir(exist_ok=True)
    (folder / "train.txt").write_text("\n".join(train))
    (folder / "heldout.txt").write_text("\n".join(held_out))
    return [sum(map(len, train)), sum(map(len, held_out))]


def prompts(work, count, length):
    """Files with pieces of the held-out text at even distances."""
    text, files = (work.folder / "text" / "heldout.txt").read_text(), []
    for i in range(count):
        begin = (len(text) - length) * i // max(count, 1)
        begin = text.find(" ", max(begin, 0)) + 1
        file = work.folder / "text" / f"prompt{i}.txt"
        file.write_text(text[begin:begin + length])
        files.append(file)
    return files


class Tuner:
    def __init__(self, options):
        self.options = options
        self.work = Work(options.out, [fingerprint(options.model), options.draft and fingerprint(options.draft),
                                       fingerprint(options.text), options.threads, options.quick])
        self.scale = 0.25 if options.quick else 1.0
        self.threads = ["--threads", options.threads] if options.threads else []
        self.ranking = options.out / "ranking.safetensors"
        config = json.loads((options.model / "config.json").read_text())
        self.vocabulary = config["vocab_size"]
        quarter = config["max_position_embeddings"] // 4
        self.prompt, self.new_tokens = min(PROMPT, quarter), min(NEW_TOKENS, quarter)

    def program(self, name, *flags, **how):
        return self.work.run(self.options.programs / name, *flags, **how)

    def drafters(self):
        """What may draft, as far as its directory says."""
        out = [Drafter("int4", "the target in four bits", clustered=True)]
        if self.options.draft:
            kind = kind_of(self.options.draft)
            words = {"model": "the draft model", "eagle": "the EAGLE head", "medusa": "the Medusa heads",
                     "streaming": "the streams", "early-exit": "the exit"}[kind]
            out.insert(0, Drafter(kind, words, self.options.draft, clustered=kind in ("model", "eagle")))
        return out + [Drafter("lookup", "what followed before", ranked=False)]

    def probe(self, drafter):
        """Whether it runs; and what its head takes."""
        flags = [word for pair in drafter.base().items() for word in pair]
        tree = ["--tree", "fixed"] if drafter.kind == "medusa" else []
        said = self.program("generate", "--model", self.options.model, *flags, *tree, "--max-new-tokens", "4", "--rounds", "1",
                            "--prompt", "The", *self.threads)
        return {"other_vocabulary": "has not the target's vocabulary" in said}

    def clusters(self, drafter, head):
        """A layout of a head, and a router for what drafts with it."""
        name = drafter.kind if drafter.kind != "model" else "draft"
        drafter.layout, drafter.router = (self.options.out / f"{part}-{name}.safetensors" for part in ("layout", "router"))
        coverage = self.options.out / f"coverage-{name}.json"
        count = min(256, max(self.vocabulary // 64, 4))

        def make():
            self.program("make_layout", "--model", head, "--clusters", count, "--core", max(self.vocabulary // 100, 1),
                         "--frequency", self.ranking, "--out", drafter.layout)
            by = ["--eagle", drafter.folder] if drafter.kind == "eagle" else ["--draft", drafter.folder or head]
            self.program("train_router", "--model", self.options.model, *by, "--layout", drafter.layout, "--text",
                         self.options.out / "text", "--leave-out", "heldout", "--temperature", "0,1", "--prompts",
                         max(int(96 * self.scale), 8), "--prompt", min(64, self.prompt), "--tokens", self.new_tokens, "--frequency", self.ranking, "--coverage", coverage,
                         "--out", drafter.router, *self.threads)
            return json.loads(coverage.read_text())
        return make, (drafter.layout, drafter.router)

    def measure(self, flags, files, rounds):
        """Of every prompt and temperature: speed-up, prediction, tokens a second."""
        report = self.options.out / "measured.json"
        words = [word for pair in flags.items() for word in pair]
        out = []
        for temperature in TEMPERATURES:
            for seed, file in enumerate(files, 1):
                self.program("generate", "--model", self.options.model, *words, "--prompt-file", file, "--temperature",
                             temperature, "--seed", seed, "--rounds", rounds, "--max-new-tokens", self.new_tokens, "--ignore-end",
                             "--json", report, "--color", "never", *self.threads)
                j = json.loads(report.read_text())
                if j["identical_to_plain"] is False and temperature == "0":
                    raise Failed(f"{' '.join(map(str, words))}: the text is not that of plain decoding")
                out.append({"temperature": temperature, "speedup": j["speedup"], "predicted": j["predicted_speedup"],
                            "plain": j["plain"]["tokens_per_second"], "rate": j["speculative"]["tokens_per_second"],
                            "length": j["mean_acceptance_length"]})
        return out

    def run(self):
        work, options = self.work, self.options
        known = self.drafters()
        work.plan([("text", 1), ("ranking", 3)] + [(f"{d.words}: probe", 3) for d in known])
        sizes = work.step([], lambda: split(options, work), [options.out / "text" / "heldout.txt"])
        work.step([], lambda: self.program("make_ranking", "--model", options.model, "--text",
                                           options.out / "text" / "train.txt", "--out", self.ranking), [self.ranking])
        usable, refused = [], {}
        for drafter in known:
            try:
                found = work.step([], lambda d=drafter: self.probe(d))
            except Failed as why:
                print(f" refused: {why}", flush=True)
                refused[drafter.words] = str(why)
                continue
            if found["other_vocabulary"]:
                drafter.clustered = False
            usable.append(drafter)

        clustered = [d for d in usable if d.clustered]
        work.plan([(f"{d.words}: clusters and router", 120 * self.scale) for d in clustered])
        coverages = {}
        for drafter in clustered:
            make, outputs = self.clusters(drafter, drafter.folder if drafter.kind == "model" else options.model)
            try:
                coverages[drafter.words] = work.step([], make, outputs)
            except Failed as why:
                print(f" refused: {why}", flush=True)
                refused[f"{drafter.words}, clusters"] = str(why)
                drafter.router = None

        tried = [c for d in usable for c in compositions(d, self.ranking, self.vocabulary)]
        many = prompts(work, max(int(8 * self.scale), 3), self.prompt)
        few = many[::len(many) // 2][:2]
        work.plan([(f"try: {name}", 12) for name, _ in tried])
        first = {}

        def attempt(name, flags):
            try:
                first[name] = work.step([str(flags)], lambda: self.measure(flags, few, 1))
            except Failed as why:
                print(f" refused: {why}", flush=True)
                refused[name] = str(why)

        for composition in tried:
            attempt(*composition)
        copies_first = behind_copies(tried, first)
        work.plan([(f"try: {name}", 12) for name, _ in copies_first])
        for composition in copies_first:
            attempt(*composition)
        tried += copies_first
        ranked = sorted(first, key=lambda name: -mean_speedup(first[name]))[:FINALISTS]
        work.plan([(f"compare: {name}", 6 * len(many) * 2) for name in ranked])
        of = dict(tried)
        final = {name: work.step([str(of[name])], lambda n=name: self.measure(of[n], many, 2)) for name in ranked}
        best = max(final, key=lambda name: mean_speedup(final[name]), default=None)
        self.write_preset(best, of, final)
        write_report(options.out, {"sizes": sizes, "refused": refused, "coverages": coverages, "first": first,
                                   "final": final, "best": best, "vocabulary": self.vocabulary, "model": str(options.model),
                                   "draft": str(options.draft or "")})
        gain = mean_speedup(final[best]) if best else 1.0
        print(f"\n{best or 'plain decoding'}: {gain:.2f} times plain decoding\n{options.out / 'preset.json'}\n"
              f"{options.out / 'report.md'}")

    def write_preset(self, best, of, final):
        """The best one; plain decoding where nothing is faster."""
        faster = best is not None and mean_speedup(final[best]) > 1.0
        flags = {"--model": self.options.model, **(of[best] if faster else {"--drafter": "none"})}
        measured = {"speedup": {t: mean_speedup([m for m in final[best] if m["temperature"] == t]) for t in TEMPERATURES}
                    } if faster else {}
        content = {"line": best if faster else "plain decoding", "flags": {flag: str(value) for flag, value in flags.items()},
                   "measured": measured}
        (self.options.out / "preset.json").write_text(json.dumps(content, indent=1) + "\n")


def main():
    try:
        Tuner(arguments()).run()
    except Failed as why:
        print(flush=True)
        fail(why)


if __name__ == "__main__":
    main()
