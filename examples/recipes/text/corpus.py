# SPDX-License-Identifier: Apache-2.0
"""Builds the corpus: Debian packages in, one text file per domain and split out.

    python -m text.corpus --work DIR [--heldout DIR]

Packages, domains and licences are in corpus.tsv. Packages are fetched with `apt-get download` and
unpacked with `dpkg -x`; nothing is installed. Documents are separated by a form feed.

The split is by document: names are ordered by hash, the first 256 KiB of a domain are its test set,
the next 64 KiB its validation set. Held-out documents are chosen before any training document; a
document most of whose lines were seen before is dropped whatever its name, and a long paragraph seen
before is cut, so that the test sets measure generalisation and not memory.
"""
import argparse
import collections
import hashlib
import json
import re
import subprocess
from pathlib import Path

from shipped import HELDOUT, MODELS
from text import readers

LIST = Path(__file__).parent / "corpus.tsv"
SEPARATOR = "\f"
TEST_BYTES, VALIDATION_BYTES = 256 * 1024, 64 * 1024
DOMAIN_BYTES = 14 << 20          # cap of a domain's training text: no domain outweighs the others by much
DOCUMENT_BYTES = (512, 48 << 10)  # shorter ones are stubs; longer ones are cut at a line end
LONG_LINE, LONG_PARAGRAPH = 40, 200  # characters from which a line or a paragraph is telling
NEAR_DUPLICATE = 0.5             # share of long lines seen before from which a document counts as a copy
SEED = "hunch"


def read_list():
    rows = (line.split("\t") for line in LIST.read_text().splitlines())
    return [row for row in rows if not row[0].startswith("#")]


def fetch(package, work):
    """The unpacked tree of a package, and the name of the file it came from."""
    archives, tree = work / "debs", work / "tree" / package
    archives.mkdir(parents=True, exist_ok=True)
    tree.parent.mkdir(exist_ok=True)
    if not list(archives.glob(f"{package}_*.deb")):
        subprocess.run(["apt-get", "download", package], cwd=archives, check=True)
    archive = next(archives.glob(f"{package}_*.deb"))
    if not tree.exists():
        subprocess.run(["dpkg", "-x", archive, tree], check=True)
    return tree, archive


def clean(text):
    """Plain UTF-8 text, or nothing when the document is no text (or cut-off bytes of another encoding)."""
    if "\0" in text or text.count("\ufffd") > 2:
        return ""
    text = text.replace("\r\n", "\n").replace(SEPARATOR, "\n").replace("\ufffd", "").replace("\u2581", "")
    text = re.sub(r"[\x00-\x08\x0b\x0e-\x1f\x7f]", "", text)
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n")
    if len(text.encode()) > DOCUMENT_BYTES[1]:
        text = text.encode()[:DOCUMENT_BYTES[1]].decode("utf-8", "ignore").rsplit("\n", 1)[0]
    return text + "\n" if len(text.encode()) >= DOCUMENT_BYTES[0] else ""


def read_documents(rows, work):
    """domain -> name -> texts. Several packages may hold parts of the same name (translations, say)."""
    domains = collections.defaultdict(lambda: collections.defaultdict(list))
    packages = []
    for package, domain, licence, reader, pattern in rows:
        tree, archive = fetch(package, work)
        paths = [tree / pattern] if reader in ("dictd", "sword") else sorted(tree.glob(pattern))
        size = 0
        for path in paths:
            if path.is_symlink() or path.is_dir() and reader != "sword":
                continue
            for name, text in getattr(readers, reader)(path):
                text = clean(text)
                size += len(text.encode())
                if text:
                    domains[domain][name].append(text)
        packages.append({"package": archive.stem, "domain": domain, "licence": licence, "bytes": size,
                         "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()})
        print(f"{package:32} {domain:12} {size / 1e6:7.2f} MB", flush=True)
    return domains, packages


def order(name):
    """The same name falls in the same place in every domain: a page and its translation stay together."""
    return hashlib.sha256(f"{SEED}/{name}".encode()).hexdigest()


def pieces(text, least):
    """Hashes and sizes of the lines or paragraphs that are long enough to be telling."""
    for piece in text.split("\n\n" if least > 100 else "\n"):
        piece = " ".join(piece.split())
        if len(piece) >= least:
            yield hash(piece), len(piece)


class Seen:
    """The long lines (or paragraphs) seen so far, and what share of a document's are among them."""

    def __init__(self, least):
        self.least, self.pieces = least, set()

    def add(self, text):
        self.pieces.update(h for h, _ in pieces(text, self.least))

    def share(self, text):
        total = known = 0
        for h, size in pieces(text, self.least):
            total += size
            known += size * (h in self.pieces)
        return known / total if total else 0.0

    def without(self, text):
        """The text less the paragraphs seen before."""
        kept = (p for p in text.split("\n\n")
                if not any(h in self.pieces for h, _ in pieces(p, self.least)))
        return "\n\n".join(kept)


def split(domains):
    """domain -> split -> texts, such that every long paragraph occurs in one document of the corpus only."""
    result = {domain: {"test": [], "validation": [], "train": []} for domain in domains}
    lines, paragraphs, used = Seen(LONG_LINE), Seen(LONG_PARAGRAPH), collections.defaultdict(set)

    def take(domain, part, name, left):
        """Adds a document to a part if it fits and is new; returns its size."""
        texts = [paragraphs.without(t) for t in domains[domain][name] if lines.share(t) <= NEAR_DUPLICATE]
        texts = [t for t in texts if len(t.encode()) >= DOCUMENT_BYTES[0]]
        size = sum(len(t.encode()) + 1 for t in texts)
        if not texts or size > left:
            return 0
        for t in texts:
            lines.add(t)
            paragraphs.add(t)
        result[domain][part] += texts
        used[domain].add(name)
        return size

    for part, left in (("test", TEST_BYTES), ("validation", VALIDATION_BYTES), ("train", DOMAIN_BYTES)):
        held = set().union(*used.values())
        for domain, documents in domains.items():
            size = 0
            for name in sorted(set(documents) - (held if part == "train" else used[domain]), key=order):
                size += take(domain, part, name, left - size)
                if left - size < 1024:
                    break
    return result


def overlap(result):
    """Share of each test set's long-paragraph text that also occurs, word for word, in any training document."""
    train = Seen(LONG_PARAGRAPH)
    for parts in result.values():
        for t in parts["train"]:
            train.add(t)
    return {domain: round(train.share("\n\n".join(parts["test"])), 5) for domain, parts in result.items()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--heldout", type=Path, default=HELDOUT)
    options = arguments.parse_args()

    domains, packages = read_documents(read_list(), options.work)
    result = split(domains)
    report = {"packages": packages, "overlap_of_test_paragraphs_with_train": overlap(result), "files": {}}
    for domain, parts in result.items():
        for part, texts in parts.items():
            folder = options.heldout if part == "test" else options.work / "corpus" / part
            folder.mkdir(parents=True, exist_ok=True)
            data = SEPARATOR.join(texts).encode()
            (folder / f"{domain}.txt").write_bytes(data)
            report["files"][f"{part}/{domain}.txt"] = {
                "documents": len(texts), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            print(f"{part:10} {domain:12} {len(texts):6} documents {len(data):10} bytes")
    print("overlap", report["overlap_of_test_paragraphs_with_train"])
    (MODELS / "corpus.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
