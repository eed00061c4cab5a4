# SPDX-License-Identifier: Apache-2.0
"""Steps that are done once, and how long the others will take."""

import hashlib
import json
import subprocess
import sys
import time


class Failed(Exception):
    """A program said why."""


def fingerprint(path):
    """Of a file or a folder, by names, sizes and times."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return [[str(p), p.stat().st_size, p.stat().st_mtime_ns] for p in files if p.exists()]


class Work:
    """The folder of a run: what was found in it before stays found, as long as what it was made of is the same."""

    def __init__(self, folder, about):
        self.folder, self.file, self.log = folder, folder / "state.json", folder / "log.txt"
        folder.mkdir(parents=True, exist_ok=True)
        self.state = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.about, self.planned, self.at, self.guessed, self.spent = about, [], 0, 0.0, 0.0

    def plan(self, steps):
        """`steps` [(name, seconds that it is guessed to take)], in the order in which they will be done."""
        self.planned += steps

    def left(self):
        """Seconds that what is planned will take, by what the guesses were worth so far."""
        factor = self.spent / self.guessed if self.guessed > 0 else 1.0
        return factor * sum(guess for _, guess in self.planned[self.at:])

    def step(self, key, make, outputs=()):
        """What make() returns, as JSON; of an earlier run, if there is such a one and its files are still there."""
        name, guess = self.planned[self.at]
        self.at += 1
        known = hashlib.sha256(json.dumps([self.about, name, key]).encode()).hexdigest()
        said = f"[{self.at:3}/{len(self.planned)}] {name}"
        before = self.state.get(name)
        if before and before["of"] == known and all(path.exists() for path in outputs):
            print(f"{said}: done before", flush=True)
            return before["found"]
        print(f"{said} ...", end="", flush=True)
        start = time.monotonic()
        found = make()
        took = time.monotonic() - start
        self.guessed, self.spent = self.guessed + guess, self.spent + took
        self.state[name] = {"of": known, "found": found, "seconds": round(took, 1)}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.state, indent=1))
        new.replace(self.file)
        left = self.left()
        print(f" {took:.0f} s" + (f", about {duration(left)} left" if left > 0 else ""), flush=True)
        return found

    def run(self, *command, timeout=3600):
        """What a program prints. Everything goes to the log. \\throws Failed with what it says."""
        words = [str(word) for word in command]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=timeout)
        with self.log.open("a") as log:
            log.write("$ " + " ".join(words) + "\n" + done.stdout + done.stderr)
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f"{words[0]} ended with {done.returncode}")
        return done.stdout + done.stderr


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def fail(message):
    print(f"tune: {message}", file=sys.stderr)
    sys.exit(1)
