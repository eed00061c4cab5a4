# SPDX-License-Identifier: Apache-2.0
"""The text that a run learns from, and the part of it that is kept for measuring."""

from work import Failed

LEAST_TEXT = 20_000       # characters to learn from
MOST_TEXT = 64 << 20      # bytes that are read
HELD_OUT = 0.1            # of every file, its end
NEAR = 40                 # characters within which a prompt looks for the beginning of a word


def files_of(path, out):
    """A file, or those of a folder and its folders that end in .txt, but for what a run has written."""
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.rglob("*") if p.suffix.lower() == ".txt" and p.is_file() and out not in p.parents)
    if not found:
        raise Failed(f"--text: {path} has no .txt file")
    return found


def shares(sizes, most):
    """Bytes to be read of each file: all of it, or as much as of the other large ones."""
    out, left = dict.fromkeys(range(len(sizes)), 0), most
    by_size = sorted(out, key=lambda i: sizes[i])
    for place, i in enumerate(by_size):
        out[i] = min(sizes[i], left // (len(sizes) - place))
        left -= out[i]
    return [out[i] for i in range(len(sizes))]


def read(file, most):
    """\\throws Failed if it is no text."""
    with file.open("rb") as opened:
        text = opened.read(most).decode("utf-8-sig", errors="replace").rstrip("\ufffd")
    if "\0" in text or text.count("\ufffd") > len(text) / 100:
        raise Failed(f"--text: {file} is not UTF-8 text")
    return text


def split(files, into):
    """Writes train.txt and heldout.txt; says of what."""
    sizes = [file.stat().st_size for file in files]
    taken = shares(sizes, MOST_TEXT)
    train, held_out = [], []
    for file, most in zip(files, taken):
        text = read(file, most)
        cut = int(len(text) * (1 - HELD_OUT))
        train.append(text[:cut])
        held_out.append(text[cut:])
    count = sum(map(len, train))
    if count < LEAST_TEXT:
        raise Failed(f"--text: {count} characters are too few to learn from; at least {LEAST_TEXT}")
    (into / "train.txt").write_bytes("\n".join(train).encode())
    (into / "heldout.txt").write_bytes("\n".join(held_out).encode())
    return {"files": len(files), "train": count, "heldout": sum(map(len, held_out)), "left_out": sum(sizes) - sum(taken)}


def prompts(held_out, folder, count, length):
    """Files with pieces of the held-out text at even distances, which begin with a word where there are words."""
    text, files = held_out.read_bytes().decode(), []
    folder.mkdir(exist_ok=True)
    for i in range(count):
        begin = max(len(text) - length - NEAR, 0) * i // max(count - 1, 1)
        begin = text.find(" ", begin, begin + NEAR) + 1 or begin
        file = folder / f"prompt{i}.txt"
        file.write_bytes(text[begin:begin + length].encode())
        files.append(file)
    return files
