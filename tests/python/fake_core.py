"""A scripted stand-in for the C++ engine, to test the Python layer around it.

It says given token ids whatever the prompt, keeps a session's tokens as the real one does, and records what it was
asked.
"""

import math
from types import SimpleNamespace

import numpy as np

from swiftlet import _core

VOCAB = 512
COUNTERS = (
    "hits", "misses", "bytes_read", "reads", "host_hits", "host_bytes", "evictions", "guesses", "guess_hits",
    "wait_seconds",
)  # fmt: skip


class FakeSession:
    def __init__(self):
        self.tokens = []
        self.valid = True
        self.resets = 0

    @property
    def position(self):
        return len(self.tokens)

    def reset(self):
        self.tokens = []
        self.valid = True
        self.resets += 1


class FakeGeneration:
    def __init__(self, engine, session, ids, params):
        self.engine, self.session, self.ids, self.params = engine, session, list(ids), params
        self.given = []
        self.prefill_progress = 0.0
        if not session.valid:
            session.reset()
        known = len(session.tokens)
        self.cached = known if known < len(self.ids) and session.tokens == self.ids[:known] else 0
        if not self.cached:
            session.reset()

    def next(self, interrupt=None, mask=None):
        if not self.given:
            self._prefill(interrupt)
        else:
            self.engine.pause("decode")
            self.session.tokens.append(self.given[-1])
        if self.engine.fail_at == len(self.given):
            raise self.engine.failure
        place = len(self.given)
        id = self.engine.script[place] if place < len(self.engine.script) else 0
        self.given.append(id)
        reason = None
        ends = [] if self.params.ignore_eos else self.engine.config["eos_token_ids"]
        if id in [*ends, *self.params.stop_token_ids]:
            reason = "stop"
        elif len(self.given) == self.params.max_tokens:
            reason = "length"
        top = [(id, -0.5), (1, -1.5)][: max(self.params.logprobs, 0)]
        logprob = -0.5 if self.params.logprobs >= 0 else math.nan
        return SimpleNamespace(id=id, logprob=logprob, top_logprobs=top, finish_reason=reason)

    def _prefill(self, interrupt):
        for layer in range(self.engine.layers):
            self.prefill_progress = layer / self.engine.layers
            self.engine.pause("prefill")
            try:
                stop = interrupt is not None and interrupt()
            except BaseException:
                self.session.valid = False
                raise
            if stop:
                self.session.valid = False
                raise _core.CancelledError(f"stopped in layer {layer}")
        self.session.tokens = list(self.ids)

    @property
    def stats(self):
        counters = {name: {"prefill": 3, "decode": 1} for name in COUNTERS}
        return {
            "prompt_tokens": len(self.ids),
            "cached_tokens": self.cached,
            "completion_tokens": len(self.given),
            "prefill_seconds": 0.5,
            "decode_seconds": 0.25,
            **counters,
        }


class FakeEngine:
    """Class attributes are set by a test, before or after loading."""

    script = ()
    layers = 4
    pause = staticmethod(lambda phase: None)
    fail_at = -1
    failure: BaseException = _core.IoError("layer 3, expert 7: the read failed")
    context = 128

    def __init__(self, path, **options):
        self.path, self.options = path, options
        self.params = None
        self.plan = {"ceiling": 4 * 10**9, "text": "4 GB = weights + pool"}
        names = ("snapshots", "snapshot_bytes", "snapshots_on_disk", "snapshot_disk_bytes", "resident_set_bytes")
        self.stats = dict.fromkeys(names, 0)
        self.config = {
            "model_type": "qwen3_next",
            "vocab_size": VOCAB,
            "context": options["context"] or self.context,
            "num_hidden_layers": self.layers,
            "eos_token_ids": [450, 448],
            "backend": "scripted",
            "io": "buffered",
        }

    def session(self):
        return FakeSession()

    def generate(self, session, ids, params, boundaries=()):
        self.params, self.boundaries = params, boundaries
        return FakeGeneration(self, session, ids, params)

    def forward(self, session, ids, *, capture=False, interrupt=None):
        assert session.position == 0
        session.tokens = list(ids)
        return {"logits": np.tile(np.arange(VOCAB, dtype=np.float32), (len(ids), 1))}

    def save_states(self, session):
        self.saved = list(session.tokens)

    def forget(self):
        pass

    def take_warnings(self):
        return []

    def set_memory(self, memory):
        self.memory = memory
