# SPDX-License-Identifier: Apache-2.0
"""Measures decoders over llama.cpp on the same files, and writes a Markdown table.

    run.sh --table [--type BF16] [--rounds 5] [--threads 1,2] [--temperatures 0,1] [--length 128]

In each round every decoder continues every prompt once, all others in between: a machine that is slower for a while is
slower for all. A cell is the median over the rounds of tokens per second, and behind it that of the ratio to
llama-speculative-simple in the same round. The prompt is not counted.
"""
import argparse
import datetime
import os
import platform
import re
import statistics
import subprocess
from pathlib import Path

PROMPTS = ["The driver supports reading the temperature of", "And he said unto them,", "def read(self, path):\n    "]
BASELINE = "llama-speculative-simple"


def tokens_and_seconds(text):
    """Of the programs of llama.cpp, and of ours."""
    found = re.search(r"decoded\s+(\d+) tokens in\s+([\d.]+) seconds", text)
    if found:
        return int(found[1]), float(found[2])
    found = re.search(r"\n.*?: +eval time = +([\d.]+) ms / +(\d+) runs", text)
    if found:
        return int(found[2]), (float(found[1]) + float(re.search(r"sampling time = +([\d.]+) ms", text)[1])) / 1e3
    found = re.search(r"tokens per second +([\d.]+)", text)
    return (float(found[1]), 1.0) if found else None


def accepted(text):
    found = re.search(r"accept += +([\d.]+)%", text)
    if found:
        return float(found[1]) / 100
    found = re.search(r"draft tokens accepted +([\d.]+)", text)
    return float(found[1]) if found else None


def outside(text):
    found = [re.search(rf"{name} +([\d.]+)", text) for name in ("outside of llama_decode", "of it in the draft head")]
    return None if not found[0] else (float(found[0][1]), float(found[1][1]) if found[1] else 0.0)


def decoders(options):
    """Name, and the command that continues a prompt."""
    files = {name: str(options.models / f"{name}-{options.type.lower()}.gguf") for name in ("target", "draft")}
    itself = str(options.models / "target-q4_0.gguf")
    length, draft_length = str(options.length), str(options.draft_length)

    def llama(program, *more):
        def command(prompt, threads, temperature, seed):
            return [str(options.llama / program), "-m", files["target"], "-c", "1024", "-n", length, "--ignore-eos",
                    "-t", threads, "-tb", threads, "--samplers", "temperature", "--temp", temperature, "--seed", seed,
                    "-p", prompt, *more]
        return command

    def simple(draft):
        def command(prompt, threads, temperature, seed):
            return llama("llama-speculative-simple", "--spec-type", "draft-simple", "-md", draft, "-td", threads, "-tbd",
                         threads, "--spec-draft-n-max", draft_length)(prompt, threads, temperature, seed)
        return command

    def own(*more):
        def command(prompt, threads, temperature, seed):
            return [str(options.own), "--model", files["target"], "--length", length, "--ignore-ends", "--threads", threads,
                    "--temperature", temperature, "--seed", seed, "--prompt", prompt, *more]
        return command

    def drafted(draft, *more):
        return own("--draft", draft, "--draft-length", draft_length, *more)

    return {
        "llama-completion, no drafts": llama("llama-completion", "-no-cnv"),
        "llama-lookup": llama("llama-lookup", "--spec-draft-n-max", draft_length),
        BASELINE: simple(files["draft"]),
        f"{BASELINE}, target in 4 bits": simple(itself),
        "hunch, no drafts": own(),
        "hunch, chain": drafted(files["draft"]),
        "hunch, tree": drafted(files["draft"], "--tree"),
        "hunch, chain, FR-Spec 3,200": drafted(files["draft"], "--head", "frequency:3200"),
        "hunch, chain, target in 4 bits": drafted(itself),
        "hunch, chain, target in 4 bits, DynaSpec 1,600": drafted(itself, "--head", "dynaspec:1600"),
    }


def measure(command):
    """What a program writes. A thread of its own writes llama.cpp's log, whose end is lost now and then."""
    for _ in range(5):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, errors="replace")
        text = done.stdout + done.stderr
        if done.returncode == 0 and tokens_and_seconds(text):
            return text
    raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{text[-2000:]}")


def processor():
    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores of {names[0] if names else platform.machine()}"


def median(values):
    return statistics.median(values) if values else float("nan")


def run_round(commands, threads, temperature, seed):
    """Tokens per second, accepted drafts, and time outside of llama_decode of each, over all prompts."""
    totals = {name: [0.0, 0.0, [], []] for name in commands}
    for prompt in PROMPTS:
        for name, command in commands.items():
            text = measure(command(prompt, threads, temperature, str(seed)))
            tokens, seconds = tokens_and_seconds(text)
            total = totals[name]
            total[0] += 1.0
            total[1] += seconds / tokens  # texts count alike, however many tokens a program emits
            for value, to in ((accepted(text), total[2]), (outside(text), total[3])):
                if value is not None:
                    to.append(value)
    return {name: (n / s, statistics.mean(a) if a else None, o) for name, (n, s, a, o) in totals.items()}


def cell(rounds, name):
    rate = median([r[name][0] for r in rounds])
    ratio = median([r[name][0] / r[BASELINE][0] for r in rounds])
    return f"{rate:.0f} ({ratio:.2f})"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("llama", "own", "models"):
        arguments.add_argument(f"--{name}", type=Path, required=True, help=argparse.SUPPRESS)
    arguments.add_argument("--type", choices=["F32", "BF16", "Q8_0"], default="BF16", help="of both models")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--temperatures", default="0,1")
    arguments.add_argument("--length", type=int, default=128, help="tokens of each text")
    arguments.add_argument("--draft-length", type=int, default=4)
    options = arguments.parse_args()

    load = os.getloadavg()[0]  # of others: the decoders are a load themselves
    commands = decoders(options)
    settings = [(t, T) for T in options.temperatures.split(",") for t in options.threads.split(",")]
    found = {s: [] for s in settings}
    for seed in range(options.rounds):
        for threads, temperature in settings:
            found[threads, temperature].append(run_round(commands, threads, temperature, seed))

    print(f"{options.type}, draft length {options.draft_length}, {options.rounds} rounds of {len(PROMPTS)} texts of "
          f"{options.length} tokens; {processor()}, {datetime.date.today()}, load {load:.1f}.")
    print("Tokens per second (ratio to llama-speculative-simple in the same round), and drafts accepted.\n")
    names = [f"T = {T}, {t} thread{'' if t == '1' else 's'}" for t, T in settings]
    print("| | " + " | ".join(names) + " | accepted, T = " + ", ".join(options.temperatures.split(",")) + " | ms a step "
          "outside of llama_decode, of it in the draft head |")
    print("|---" * (len(names) + 3) + "|")
    for name in commands:
        kept = []
        for temperature in options.temperatures.split(","):
            values = [r[name][1] for (_, T), rounds in found.items() if T == temperature for r in rounds]
            values = [v for v in values if v is not None]
            kept.append(f"{statistics.mean(values):.2f}" if any(values) else "–")
        outer = [o for rounds in found.values() for r in rounds for o in r[name][2]]
        times = f"{median([o for o, _ in outer]):.2f}, {median([h for _, h in outer]):.2f}" if outer else "–"
        print(f"| {name} | " + " | ".join(cell(found[s], name) for s in settings) + f" | {', '.join(kept)} | {times} |",
              flush=True)


if __name__ == "__main__":
    main()
