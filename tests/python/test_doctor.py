"""swiftlet doctor, on the demo model."""

import numpy as np
import pytest

from swiftlet.cli import doctor, main


def test_everything_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--no-bench"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("swiftlet ") and out.endswith("everything is in order\n")
    assert "answer the same" in out and "change nothing" in out


class _Broken(doctor._Run):
    """Computes something else in its last layer, except for the reference."""

    def __init__(self, path: str, computer: doctor.Computer, **options: object) -> None:
        super().__init__(path, computer, **options)
        if computer.name != "reference":
            self.layers[-1][3] *= 1.01


def test_a_wrong_layer_is_seen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_Run", _Broken)
    assert main(["doctor", "--no-bench"]) == 1
    out = capsys.readouterr().out
    assert ": WRONG" in out and out.endswith("SOMETHING IS WRONG: please report this\n")


class _Values:
    """Just the outputs of a run."""

    def __init__(self, value: float, expert: int) -> None:
        self.layers = [np.full((4, 8), value, np.float32)]
        self.logits = np.full((4, 16), value, np.float32)
        self.experts = [None, np.array([[0, 1], [2, 3], [4, expert], [6, 7]])]


def test_differences_are_relative_and_nan_is_infinite() -> None:
    one, other = _Values(101, 5), _Values(100, 5)
    everything = np.ones(4, bool)
    assert doctor._error(one, other, everything) == pytest.approx(0.01)  # type: ignore[arg-type]
    one.logits[2, 3] = np.nan
    assert doctor._error(one, other, everything) == np.inf  # type: ignore[arg-type]


def test_tokens_after_another_choice_of_experts_do_not_count() -> None:
    same = doctor._same_experts(_Values(1, 5), _Values(1, 9))  # type: ignore[arg-type]
    assert same.tolist() == [True, True, False, False]
