# SPDX-License-Identifier: Apache-2.0
"""Steps that are done once, and how long the others will take."""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Failed(Exception):
    """A program said why."""


class Wrong(Exception):
    """A result that cannot be: it is not left out, it ends the run."""


def fingerprint(files):
    """Of files, by names, sizes and times."""
    return [[str(p), p.stat().st_size, p.stat().st_mtime_ns] for p in files]


def files_in(path):
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def contents(paths):
    """What files hold, {name: digest}; nothing of those that are missing."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None for path in paths}


class Work:
    """The folder of a run: what was found in it before stays found, as long as what it was made of is the same."""

    GUESS_HOLDS = 10.0  # seconds, before which nothing is known of how good the guesses are

    def __init__(self, folder, about):
        self.folder, self.file, self.log = folder, folder / "state.json", folder / "log.txt"
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob("making-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        try:
            self.state = json.loads(self.file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            self.state = {}
        self.about, self.planned, self.at, self.guessed, self.spent = about, [], 0, 0.0, 0.0

    def plan(self, steps):
        """`steps` [(name, seconds that it is guessed to take)], in the order in which they will be done."""
        self.planned += steps

    def left(self):
        """Seconds that what is planned will take, by what the guesses were worth so far."""
        factor = self.spent / self.guessed if self.guessed > self.GUESS_HOLDS else 1.0
        return factor * sum(guess for _, guess in self.planned[self.at:])

    def step(self, key, make, outputs=()):
        """What make(folder) returns, as JSON; of an earlier run, if it was made of the same and its files are as it left
        them. make writes files of the names of `outputs`, which take their places when it has finished."""
        name, guess = self.planned[self.at]
        self.at += 1
        known = hashlib.sha256(json.dumps([self.about, name, key]).encode()).hexdigest()
        said = f"[{self.at:3}/{len(self.planned)}] {name}"
        before = self.state.get(name)
        if before and before["of"] == known and before["files"] == contents(outputs):
            print(f"{said}: done before", flush=True)
            return before["found"]
        print(f"{said} ...", end="", flush=True)
        self.state.pop(name, None)
        self.save()
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="making-", dir=self.folder) as into:
            found = make(Path(into))
            for path in outputs:
                path.parent.mkdir(exist_ok=True)
                (Path(into) / path.name).replace(path)
        took = time.monotonic() - start
        self.guessed, self.spent = self.guessed + guess, self.spent + took
        self.state[name] = {"of": known, "found": found, "files": contents(outputs), "seconds": round(took, 1)}
        self.save()
        left = self.left()
        print(f" {took:.0f} s" + (f", about {duration(left)} left" if left > 0 else ""), flush=True)
        return found

    def save(self):
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.state, indent=1), encoding="utf-8")
        new.replace(self.file)

    def run(self, *command):
        """What a program prints. Everything goes to the log. \\throws Failed with what it says."""
        words = [str(word) for word in command]
        done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace")
        with self.log.open("a", encoding="utf-8", errors="backslashreplace") as log:
            log.write("$ " + " ".join(words) + "\n" + done.stdout + done.stderr)
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f"{words[0]} ended with {done.returncode}")
        return done.stdout + done.stderr


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def fail(message, code=1):
    print(f"tune: {message}", file=sys.stderr)
    sys.exit(code)
