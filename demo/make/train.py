"""Trains the demo model on the rows that build_data.py packed.

    python train.py --data DATA --out RUN --minutes 9 [--init EARLIER_RUN] [--lr 2e-3]

All 4-bit matrices live in one flat f32 master buffer, the 8-bit gates in a second and the rest in a third; the network
runs on bf16 copies. From `--qat-from` of the run on, the copies hold the quantized values (straight-through estimation
without any change to the model's code), so the network that is trained is the network that ships.

The schedule runs on wall-clock time: `--minutes` is the whole budget.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import quant
from model import Layer, TextConfig, TinyQwen, init_weights

Kind = int | None  # bits of a weight; None: not quantized

PART_BYTES = 14 << 20  # of a file of saved weights


def parse_args() -> argparse.Namespace:
    p = argparse.ArgumentParser(description="Trains the demo model.")
    p.add_argument("--data", type=Path, required=True, help="folder that build_data.py wrote")
    p.add_argument("--out", type=Path, required=True, help="folder for weights and log")
    p.add_argument("--init", type=Path, help="folder of an earlier run, to continue from")
    p.add_argument("--minutes", type=float, default=9.0)
    p.add_argument("--rows", type=int, default=32, help="rows of 2048 tokens a step")
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--hold", type=float, default=0.45, help="share of the run at the full learning rate")
    p.add_argument("--qat-from", type=float, default=0.5, help="share of the run after which weights are quantized")
    p.add_argument("--warmup", type=int, default=200, help="steps")
    p.add_argument("--weight-decay", type=float, default=0.05)
    p.add_argument("--balance", type=float, default=0.01, help="weight of the load-balancing loss")
    p.add_argument("--balance-slack", type=float, default=1.0, help="how uneven the load may be at no cost (1: even)")
    p.add_argument("--locality", type=float, default=0.0, help="weight of the loss that asks for local use of experts")
    p.add_argument("--locality-target", type=float, default=2.5)
    p.add_argument("--context-weight", type=float, default=0.1, help="loss weight of tokens the model does not write")
    p.add_argument("--max-steps", type=int, default=10**9)
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


class Rows:
    """Packed rows on the device: bits 0-11 of an entry are the token, bit 14 marks the first token of a document, bit
    15 a token that the model has to write."""

    def __init__(self, file: Path, meta: dict, context_weight: float, device: str):
        raw = lzma.decompress(file.read_bytes())
        rows = np.frombuffer(raw, np.uint16).astype(np.int32).reshape(-1, meta["row"])
        self.rows = torch.from_numpy(rows).to(device)
        self.pad = meta["pad"]
        self.context_weight = context_weight

    def batch(self, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """-> tokens, their positions in their documents, targets, loss weights; all [rows, row length]."""
        rows = self.rows[index]
        rows = torch.cat([rows, rows[:, :1]], 1)
        tokens = (rows & 0xFFF).long()
        first = (rows >> 14) & 1
        place = torch.arange(rows.shape[1], device=rows.device).expand_as(rows)
        position = place - torch.where(first.bool(), place, 0).cummax(1).values
        target = tokens[:, 1:]
        learn = ((rows >> 15) & 1).bool()[:, 1:]
        weight = torch.where(learn, 1.0, self.context_weight * (target != self.pad))
        return tokens[:, :-1], position[:, :-1], target, weight * (first[:, 1:] == 0)

    def forever(self, size: int) -> Iterator[torch.Tensor]:
        """Indices of `size` rows at a time, in a new order each epoch."""
        while True:
            for index in torch.randperm(len(self.rows), device=self.rows.device).split(size):
                if len(index) == size:
                    yield index


class FlatWeights:
    """The parameters of a model in one buffer a kind: f32 masters, the copies that the network reads, gradients."""

    def __init__(self, model: TinyQwen, snap):
        self.snap = snap
        self.master: dict[Kind, torch.Tensor] = {}
        self.work: dict[Kind, torch.Tensor] = {}
        self.grads: dict[Kind, torch.Tensor] = {}
        kinds: dict[Kind, list[torch.nn.Parameter]] = {4: [], 8: [], None: []}
        for name, parameter in model.named_parameters():
            kinds[quant.bits_for(name)].append(parameter)
        for bits, parameters in kinds.items():
            dtype = torch.float32 if bits is None else torch.bfloat16
            self.master[bits] = torch.cat([p.data.flatten() for p in parameters]).float()
            self.master[bits].grad = torch.zeros_like(self.master[bits])
            self.work[bits] = torch.empty_like(self.master[bits], dtype=dtype)
            self.grads[bits] = torch.zeros_like(self.work[bits])
            at = 0
            for p in parameters:
                end = at + p.numel()
                p.data = self.work[bits][at:end].view(p.shape)
                p.grad = self.grads[bits][at:end].view(p.shape)
                at = end

    @torch.no_grad()
    def refresh(self, *, quantized: bool) -> None:
        """Copies the masters to where the network reads them."""
        for bits, master in self.master.items():
            if bits is None:
                self.work[bits].copy_(master.bfloat16())
            else:
                self.work[bits].copy_(self.snap(master, bits) if quantized else master)

    @torch.no_grad()
    def collect(self) -> torch.Tensor:
        """Hands the gradients to the masters, clipped to norm 1; returns the norm before."""
        for bits, master in self.master.items():
            master.grad.copy_(self.grads[bits])
            self.grads[bits].zero_()
        norm = torch.stack([m.grad.norm() for m in self.master.values()]).norm()
        for master in self.master.values():
            master.grad.mul_((1.0 / (norm + 1e-6)).clamp(max=1.0))
        return norm


def token_loss(h, head, target, weight) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted loss, and the plain mean over the tokens that the model has to write."""
    logits = F.linear(h, head).float()
    nll = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), reduction="none")
    weight = weight.reshape(-1)
    own = (weight > 0.5).float()
    return (nll * weight).sum() / weight.sum(), (nll.detach() * own).sum() / own.sum()


def learning_rate(args: argparse.Namespace, step: int, progress: float) -> float:
    rate = min(1.0, (step + 1) / args.warmup)
    if progress > args.hold:
        x = (progress - args.hold) / (1 - args.hold)
        rate *= 0.5 * (1 + math.cos(math.pi * min(x, 1.0))) * 0.99 + 0.01
    return args.lr * rate


def save(model: TinyQwen, out: Path) -> None:
    """Writes the weights in files of PART_BYTES at most."""
    part, size, count = {}, 0, 0
    for name, parameter in model.named_parameters():
        nbytes = parameter.numel() * 2
        if part and size + nbytes > PART_BYTES:
            torch.save(part, out / f"weights-{count}.pt")
            part, size, count = {}, 0, count + 1
        dtype = torch.float32 if name.endswith("A_log") else torch.bfloat16
        part[name] = parameter.detach().to(dtype).cpu().clone()
        size += nbytes
    torch.save(part, out / f"weights-{count}.pt")


def main() -> None:
    args = parse_args()
    start = time.time()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    args.out.mkdir(parents=True, exist_ok=True)
    meta = json.loads((args.data / "meta.json").read_text(encoding="utf-8"))
    train, held = (Rows(args.data / f"{n}.u16.xz", meta, args.context_weight, device) for n in ("train", "val"))

    model = TinyQwen(TextConfig(vocab_size=meta["vocab_size"]))
    if args.init:
        parts = [torch.load(part) for part in sorted(args.init.glob("weights-*.pt"))]
        model.load_state_dict({name: w.float() for part in parts for name, w in part.items()})
    else:
        init_weights(model, args.seed)
    model.to(device)

    loss_of, snap = token_loss, quant.snap
    if not args.no_compile:
        Layer.forward = torch.compile(Layer.forward, dynamic=False)
        loss_of = torch.compile(token_loss, dynamic=False)
        snap = torch.compile(quant.snap, dynamic=False)
    weights = FlatWeights(model, snap)
    optimizer = torch.optim.AdamW(
        [
            {"params": [weights.master[4], weights.master[8]], "weight_decay": args.weight_decay},
            {"params": [weights.master[None]], "weight_decay": 0.0},
        ],
        lr=args.lr,
        betas=(0.9, 0.97),
        eps=1e-10,
        fused=device == "cuda",
    )

    def say(text: str) -> None:
        print(text, flush=True)
        with (args.out / "log.txt").open("a", encoding="utf-8") as log:
            log.write(text + "\n")

    def validate() -> float:
        """Mean loss of the tokens the model has to write. Gradients stay on, so that no second graph is compiled."""
        losses = []
        for index in torch.arange(len(held.rows), device=device).split(args.rows):
            if len(index) == args.rows:
                tokens, position, target, weight = held.batch(index)
                h, _ = model.hidden(tokens, position)
                losses.append(loss_of(h, model.lm_head.weight, target, weight)[1].item())
        return sum(losses) / max(1, len(losses))

    order = train.forever(args.rows)
    recent, since, since_step, step = [], time.time(), 0, 0
    while step < args.max_steps and (progress := (time.time() - start) / (args.minutes * 60)) < 1:
        rate = learning_rate(args, step, progress)
        for group in optimizer.param_groups:
            group["lr"] = rate
        weights.refresh(quantized=progress >= args.qat_from)
        tokens, position, target, weight = train.batch(next(order))
        h, routing = model.hidden(tokens, position)
        loss, plain = loss_of(h, model.lm_head.weight, target, weight)
        balance, locality = routing.unbind(1)
        uneven = F.relu(balance - args.balance_slack).mean()
        spread = F.relu(args.locality_target - locality).mean()
        (loss + args.balance * uneven + args.locality * spread).backward()
        norm = weights.collect()
        optimizer.step()
        recent.append(torch.stack([plain.detach(), balance.detach().mean(), norm, locality.detach().mean()]))
        step += 1
        if step % 100 == 0 or step in (1, 2, 5, 20):
            mean_loss, mean_balance, mean_norm, mean_locality = torch.stack(recent).mean(0).tolist()
            if not math.isfinite(mean_loss):
                raise SystemExit("the loss is not finite")
            rate_text = f"{(step - since_step) * args.rows * meta['row'] / (time.time() - since) / 1e3:.0f} ktok/s"
            say(
                f"step {step:5d} {progress:4.0%} lr {rate:.1e} loss {mean_loss:.4f} balance {mean_balance:.3f} "
                f"local {mean_locality:.2f} grad {mean_norm:.2f} {rate_text} {time.time() - start:.0f} s"
            )
            recent, since, since_step = [], time.time(), step

    for quantized in (False, True):
        weights.refresh(quantized=quantized)
        say(f"validation loss, {'quantized' if quantized else 'bf16'}: {validate():.4f}")
    save(model, args.out)
    say(f"saved after {step} steps, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
