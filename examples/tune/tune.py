# SPDX-License-Identifier: Apache-2.0
"""Finds the fastest exact composition for a pair of models on this machine: see tune.sh.

Makes a ranking of the vocabulary from the text, clusters of the heads that draft, and a router for each, from what it
really drafts at temperatures 0 and 1; then tries the compositions that make sense side by side along text that nothing
was made from, and writes preset.json and report.md.
"""

import argparse
import datetime
import json
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from candidates import Drafter, behind_copies, compositions, error_of_speedup, kind_of, mean_speedup  # noqa: E402
from report import write_report  # noqa: E402
from texts import files_of, prompts, split  # noqa: E402
from work import Failed, Work, Wrong, contents, fail, files_in, fingerprint  # noqa: E402

TEMPERATURES = ("0", "1")
FINALISTS = 4
PROMPT = 600              # bytes, and no more than a quarter of the context: a token is a byte at least
NEW_TOKENS = 96           # no more than a quarter, too
ROUNDS = 2                # of every prompt that finalists are compared along
AGAIN = 2                 # runs more where one cannot be right
POSSIBLE = 1.1            # speed-up over tokens a step, above which one of the two decodings was disturbed


def arguments():
    parser = argparse.ArgumentParser(prog="tune.sh", description="the fastest exact composition for a pair of models")
    parser.add_argument("--model", type=Path, required=True, help="the target: a Hugging Face directory")
    parser.add_argument("--draft", type=Path, help="what may draft for it: a model, or heads of the target")
    parser.add_argument("--text", type=Path, required=True, help="a text like those to come; or a folder of .txt files")
    parser.add_argument("--out", type=Path, required=True, help="where everything goes")
    parser.add_argument("--threads", type=int, help="of the models (default: half of the processors)")
    parser.add_argument("--quick", action="store_true", help="a quarter of the texts: for a first look")
    parser.add_argument("--programs", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # the arguments, and nothing else
    options = parser.parse_args()
    for name, is_folder in (("model", True), ("draft", True), ("text", False)):
        path = getattr(options, name)
        if path and not path.exists():
            parser.error(f"--{name}: {path} does not exist")
        if path and is_folder and not path.is_dir():
            parser.error(f"--{name}: {path} is no directory")
        if path:
            setattr(options, name, path.resolve())
    if options.text.exists() and not (options.text.is_dir() or options.text.is_file()):
        parser.error(f"--text: {options.text} can be read once only; write it to a file")
    processors = os.cpu_count() or 1
    if options.threads is not None and not 1 <= options.threads <= processors:
        parser.error(f"--threads: must be from 1 to {processors}")
    options.out = options.out.resolve()
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out: {options.out} is no directory")
    return options


class Tuner:
    def __init__(self, options):
        self.options = options
        self.texts = files_of(options.text, options.out)
        self.threads = options.threads or max((os.cpu_count() or 1) // 2, 1)
        self.work = Work(options.out, [fingerprint(files_in(options.model)),
                                       options.draft and fingerprint(files_in(options.draft)),
                                       fingerprint(self.texts), self.threads, options.quick])
        self.scale = 0.25 if options.quick else 1.0
        self.ranking = options.out / "ranking.safetensors"
        self.train, self.held_out = (options.out / "text" / f"{name}.txt" for name in ("train", "heldout"))

    def program(self, name, *flags):
        return self.work.run(self.options.programs / name, "--model", self.options.model, *flags)

    def generate(self, flags, *more):
        words = [word for pair in flags.items() for word in pair]
        return self.program("generate", *words, "--threads", self.threads, *more)

    def briefly(self, flags):
        return self.generate(flags, "--max-new-tokens", "4", "--rounds", "1", "--prompt", "The")

    def size_up(self):
        """Sets what is made in the measure of the target, which runs."""
        config = json.loads((self.options.model / "config.json").read_text(encoding="utf-8"))
        config = config.get("text_config", config)
        self.vocabulary = config["vocab_size"]
        quarter = config.get("max_position_embeddings", 4 * PROMPT) // 4
        self.prompt, self.new_tokens = min(PROMPT, quarter), min(NEW_TOKENS, quarter)

    def drafters(self):
        """What may draft, as far as its directory says."""
        out = [Drafter("int4", "the target in four bits", clustered=True)]
        folder = self.options.draft
        if folder:
            kind = kind_of(folder)
            if kind is None:
                self.briefly({"--draft": folder})  # says what is wrong with it
                raise Failed(f"--draft: {folder} holds nothing that is known here")
            words = {"model": "the draft model", "eagle": "the EAGLE head", "medusa": "the Medusa heads",
                     "streaming": "the streams", "early-exit": "the exit"}[kind]
            out.insert(0, Drafter(kind, words, folder, clustered=kind in ("model", "eagle")))
        return out + [Drafter("lookup", "what followed before", ranked=False)]

    def probe(self, drafter):
        """Whether it runs; and what its head takes."""
        flags = {**drafter.base(), **({"--tree": "fixed"} if drafter.kind == "medusa" else {})}
        said = self.briefly(flags)
        ranked = drafter.ranked
        if ranked:
            try:
                self.briefly({**flags, "--selector": f"frequency:{max(self.vocabulary // 6, 1)}", "--layout": self.ranking})
            except Failed as why:  # other reasons are told where it is tried
                ranked = "has a head of its own" not in str(why)
        return {"other_vocabulary": "has not the target's vocabulary" in said, "ranked": ranked}

    def clusters(self, drafter):
        """A layout of a head, and a router for what drafts with it."""
        name = drafter.kind if drafter.kind != "model" else "draft"
        drafter.layout, drafter.router = (self.options.out / f"{part}-{name}.safetensors" for part in ("layout", "router"))
        coverage = self.options.out / f"coverage-{name}.json"
        head = drafter.folder if drafter.kind == "model" else self.options.model
        count = min(256, max(self.vocabulary // 64, 4))

        def make(into):
            layout, written = into / drafter.layout.name, into / coverage.name
            self.work.run(self.options.programs / "make_layout", "--model", head, "--clusters", count, "--core",
                          max(self.vocabulary // 100, 1), "--frequency", self.ranking, "--out", layout)
            by = ["--eagle", drafter.folder] if drafter.kind == "eagle" else ["--draft", drafter.folder or head]
            self.program("train_router", *by, "--layout", layout, "--text", self.train.parent, "--leave-out",
                         self.held_out.stem, "--temperature", ",".join(TEMPERATURES), "--prompts",
                         max(int(96 * self.scale), 8), "--prompt", min(64, self.prompt), "--tokens", self.new_tokens,
                         "--frequency", self.ranking, "--coverage", written, "--out", into / drafter.router.name,
                         "--threads", self.threads)
            return json.loads(written.read_text(encoding="utf-8"))
        return self.work.step([contents([self.ranking, self.train])], make, (drafter.layout, drafter.router, coverage))

    def measure(self, flags, files, rounds, into):
        """Of every prompt and temperature: speed-up, prediction, tokens a second."""
        out = []
        for temperature in TEMPERATURES:
            for seed, file in enumerate(files, 1):
                def run():
                    return self.measure_once(flags, file, temperature, seed, rounds, into)
                found = run()
                for _ in range(AGAIN):
                    # No step is shorter than that of plain decoding.
                    if found["speedup"] > POSSIBLE * found["length"]:
                        found = min(found, run(), key=lambda one: one["speedup"])
                out.append(found)
        return out

    def measure_once(self, flags, file, temperature, seed, rounds, into):
        written = into / "measured.json"
        self.generate(flags, "--prompt-file", file, "--temperature", temperature, "--seed", seed, "--rounds", rounds,
                      "--max-new-tokens", self.new_tokens, "--ignore-end", "--json", written, "--color", "never")
        j = json.loads(written.read_text(encoding="utf-8"))
        if j["identical_to_plain"] is False and temperature == "0":
            raise Wrong(f"{' '.join(f'{flag} {value}' for flag, value in flags.items())}: the text after {file} is not that "
                        "of plain decoding")
        return {"temperature": temperature, "speedup": j["speedup"], "predicted": j["predicted_speedup"],
                "plain": j["plain"]["tokens_per_second"], "rate": j["speculative"]["tokens_per_second"],
                "length": j["mean_acceptance_length"]}

    def key_of(self, flags, files):
        """What a measurement depends on: the words, and what the files hold that were made here."""
        made = [value for value in flags.values() if isinstance(value, Path) and self.options.out in value.parents]
        return [str(flags), contents(made), contents(files)]

    def run(self):
        work, options = self.work, self.options
        work.plan([("text", 1), ("the target", 3), ("ranking", 3)])
        sizes = work.step([], lambda into: split(self.texts, into), [self.train, self.held_out])
        work.step([], lambda into: self.briefly({"--drafter": "none"}))
        self.size_up()
        work.step([contents([self.train])],
                  lambda into: self.program("make_ranking", "--text", self.train, "--out", into / self.ranking.name),
                  [self.ranking])
        known, usable, refused = self.drafters(), [], {}
        work.plan([(f"{d.words}: probe", 3) for d in known])
        for drafter in known:
            try:
                found = work.step([contents([self.ranking])], lambda into, d=drafter: self.probe(d))
            except Failed as why:
                if drafter.folder:
                    raise Failed(f"--draft: {why}") from why
                print(f" refused: {why}", flush=True)
                refused[drafter.words] = str(why)
                continue
            drafter.ranked = found["ranked"]
            if drafter.clustered and (found["other_vocabulary"] or not drafter.ranked):
                drafter.clustered = False
                refused[f"{drafter.words}, clusters"] = "it drafts from a vocabulary of its own"
            usable.append(drafter)

        clustered = [d for d in usable if d.clustered]
        work.plan([(f"{d.words}: clusters and router", 120 * self.scale) for d in clustered])
        coverages = {}
        for drafter in clustered:
            try:
                coverages[drafter.words] = self.clusters(drafter)
            except Failed as why:
                print(f" refused: {why}", flush=True)
                refused[f"{drafter.words}, clusters"] = str(why)
                drafter.router = None

        tried = [c for d in usable for c in compositions(d, self.ranking, self.vocabulary)]
        many = prompts(self.held_out, options.out / "prompts", max(int(8 * self.scale), 3), self.prompt)
        few = many[::len(many) // 2][:2]
        work.plan([(f"try: {name}", 12) for name, _ in tried])
        first = {}

        def attempt(name, flags):
            try:
                first[name] = work.step(self.key_of(flags, few), lambda into: self.measure(flags, few, 1, into))
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
        if not ranked:
            raise Failed("nothing that drafts runs: " + "; ".join(refused.values()))
        work.plan([(f"compare: {name}", 6 * len(many) * ROUNDS) for name in ranked])
        of = dict(tried)
        final = {name: work.step(self.key_of(of[name], many), lambda into, n=name: self.measure(of[n], many, ROUNDS, into))
                 for name in ranked}
        best = max(final, key=lambda name: mean_speedup(final[name]))
        gain, error = mean_speedup(final[best]), error_of_speedup(final[best])
        faster = gain > 1.0 + error
        about = {"threads": self.threads, "machine": f"{platform.node()}, {platform.machine()}, {os.cpu_count()} processors",
                 "date": datetime.date.today().isoformat(), "prompts": len(many), "rounds": ROUNDS,
                 "tokens": self.new_tokens}
        self.write_preset(best if faster else None, of, final, about)
        said = (f"{best}: {gain:.2f} ± {error:.2f} times plain decoding" if faster else
                f"plain decoding: the best of what drafts, {best}, has {gain:.2f} ± {error:.2f} of its speed")
        write_report(options.out, {"sizes": sizes, "refused": refused, "coverages": coverages, "first": first,
                                   "final": final, "said": said, "vocabulary": self.vocabulary, "model": str(options.model),
                                   "draft": str(options.draft or ""), "about": about})
        print(f"\n{said}\n{options.out / 'preset.json'}\n{options.out / 'report.md'}")

    def write_preset(self, best, of, final, about):
        """The best one, or plain decoding. What was made here is named as seen from its folder, which may be moved."""
        def text(value):
            inside = isinstance(value, Path) and self.options.out in value.parents
            return str(value.relative_to(self.options.out) if inside else value)
        flags = {"--model": self.options.model, **(of[best] if best else {"--drafter": "none"})}
        if self.options.threads:
            flags["--threads"] = self.options.threads
        speedup = {t: mean_speedup([m for m in final[best] if m["temperature"] == t]) for t in TEMPERATURES} if best else {}
        content = {"line": best or "plain decoding", "flags": {flag: text(value) for flag, value in flags.items()},
                   "measured": {"speedup": speedup, **about}}
        (self.options.out / "preset.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main():
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
    try:
        options = arguments()
        if not options.check:
            Tuner(options).run()
    except KeyboardInterrupt:
        print(flush=True)
        fail("interrupted; the same command goes on", 130)
    except (Failed, Wrong, OSError) as why:
        print(flush=True)
        fail(why)


if __name__ == "__main__":
    main()
