import json
import shutil
import signal
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[1] / "data" / "reference"

# Shells start what runs in the background with Ctrl-C ignored, and processes that the tests start would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["next", "q35"])
def family(request):
    return request.param


@pytest.fixture
def cases(family):
    """What transformers computes with the tokenizer and template of a family."""
    return json.loads((REFERENCE / "tokenizer" / f"{family}.json").read_text(encoding="utf-8"))


@pytest.fixture
def text_folder(family, tmp_path):
    """A writable copy of tokenizer, its config and the chat template."""
    return shutil.copytree(REFERENCE / "tokenizer" / family, tmp_path / family)


@pytest.fixture
def next_folder(tmp_path):
    """The same of one family, for tests of what does not depend on it."""
    return shutil.copytree(REFERENCE / "tokenizer" / "next", tmp_path / "next")
