"""Writes packed training rows: OUT/train.u16.xz, OUT/val.u16.xz, OUT/meta.json.

    python build_data.py CHECKPOINT OUT --dialogues 400000 --workers 2

Each row is 2048 uint16: bits 0-11 token id, bit 14 first token of a document, bit 15 a token the
assistant has to produce.  Documents are whole dialogues; none is split over rows.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from dialogue import dialogue, raw_text, render
from eval_set import held_out_prompts, norm
from tokenizer import VOCAB

ROW = 2048
HELD = 128  # rows for validation
FIRST, LEARN = 1 << 14, 1 << 15
RAW = 0.04  # share of documents without chat markup


def documents(job):
    seed, count, tok_path = job
    rng = random.Random(seed)
    tok = Tokenizer.from_file(tok_path)
    tok.enable_truncation(ROW)
    banned = held_out_prompts()
    docs, skipped, batch = [], 0, []

    def flush():
        for (text, spans), enc in zip(batch, tok.encode_batch([t for t, _ in batch]), strict=True):
            ids = np.array(enc.ids, np.uint16)
            if len(ids) >= ROW:
                continue
            learn = np.zeros(len(text) + 1, bool)
            for a, b in spans:
                learn[a:b] = True
            starts = np.array([o[0] for o in enc.offsets])
            ids |= np.where(learn[starts], LEARN, 0).astype(np.uint16)
            ids[0] |= FIRST
            docs.append(ids)
        batch.clear()

    for _ in range(count):
        if rng.random() < RAW:
            text = raw_text(rng)
            batch.append((text, [(0, len(text))]))
            continue
        tools, messages, thinking, keep = dialogue(rng)
        if any(m["role"] == "user" and norm(m["content"]) in banned for m in messages):
            skipped += 1
            continue
        batch.append(render(messages, tools, thinking, keep))
        if len(batch) == 500:
            flush()
    flush()
    return docs, skipped


def pack(docs, pad, rng):
    """First-fit over a few open rows."""
    rng.shuffle(docs)
    done, open_rows = [], []
    for d in docs:
        best = None
        for r in open_rows:
            if r[1] + len(d) <= ROW and (best is None or r[1] > best[1]):
                best = r
        if best is None:
            best = [[], 0]
            open_rows.append(best)
        best[0].append(d)
        best[1] += len(d)
        if best[1] > ROW - 24 or len(open_rows) > 40:
            fullest = max(range(len(open_rows)), key=lambda i: open_rows[i][1])
            done.append(open_rows.pop(fullest))
    done += open_rows
    rows = np.full((len(done), ROW), pad, np.uint16)
    for i, (parts, n) in enumerate(done):
        rows[i, :n] = np.concatenate(parts)
        if n < ROW:
            rows[i, n] |= FIRST
    return rows[rng.permutation(len(rows))]


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes packed training rows.")
    parser.add_argument("checkpoint", type=Path, help="folder with the tokenizer's files")
    parser.add_argument("out", type=Path)
    parser.add_argument("--dialogues", type=int, default=400_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    tokenizer = str(args.checkpoint / "tokenizer.json")
    pad = Tokenizer.from_file(tokenizer).token_to_id("<|endoftext|>")
    args.out.mkdir(parents=True, exist_ok=True)
    share = min(10_000, args.dialogues)
    jobs = [(args.seed * 100_000 + i, share, tokenizer) for i in range(args.dialogues // share)]
    with Pool(args.workers) as pool:
        results = pool.map(documents, jobs, chunksize=1)
    docs = [doc for made, _ in results for doc in made]
    rows = pack(docs, pad, np.random.default_rng(args.seed))
    (args.out / "val.u16.xz").write_bytes(lzma.compress(rows[:HELD].tobytes(), preset=6))
    (args.out / "train.u16.xz").write_bytes(lzma.compress(rows[HELD:].tobytes(), preset=4))
    used = int(((rows & 0xFFF) != pad).sum())
    meta = {
        "row": ROW,
        "vocab_size": VOCAB,
        "pad": pad,
        "dialogues": len(docs),
        "skipped_as_held_out": sum(skipped for _, skipped in results),
        "rows": len(rows),
        "tokens": used,
        "assistant_tokens": int(((rows >> 15) & 1).sum()),
        "fill": used / rows.size,
    }
    text = json.dumps(meta, indent=1) + "\n"
    (args.out / "meta.json").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
