"""Asks a model the questions of eval.jsonl, greedily, and counts the right answers.

    python demo/evaluate.py                                   # the bundled demo model
    python demo/evaluate.py --model PATH --show wrong --out answers.jsonl

A line of eval.jsonl has messages (and tools), enable_thinking, max_tokens, and what is accepted. An answer is right if
it ended by itself within max_tokens and meets every condition of `accept`, in the part after the reasoning; letters are
compared without case unless "case" is true:

    any, all        at least one of these texts occurs, or every one
    not             none of these texts occurs
    equals          the answer is this text, apart from a full stop or an exclamation mark
    equals-number   the first number after the last "=" (or of the answer) is this one
    count           at least "min" of the texts "of" occur
    min-words       the answer has at least this many words
    tool            the first tool call has this name and these arguments
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from swiftlet import Engine

QUESTIONS = Path(__file__).with_name("eval.jsonl")


def tool_calls(answer: str) -> list[dict[str, Any]]:
    calls = re.findall(r"<tool_call>\s*<function=([^>]+)>(.*?)</function>\s*</tool_call>", answer, re.DOTALL)
    parameter = re.compile(r"<parameter=([^>]+)>\n(.*?)\n</parameter>", re.DOTALL)
    return [{"name": name, "arguments": dict(parameter.findall(body))} for name, body in calls]


def is_accepted(accept: dict[str, Any], text: str) -> bool:
    """Whether an answer meets every condition; see the top of this file."""
    answer = text.split("</think>")[-1].strip()

    def fold(words: str) -> str:
        return words if accept.get("case") else words.lower()

    def occurring(texts: Iterable[str]) -> int:
        return sum(fold(t) in fold(answer) for t in texts)

    if "tool" in accept:
        arguments = {name: str(value) for name, value in accept["tool"]["arguments"].items()}
        return tool_calls(answer)[:1] == [{"name": accept["tool"]["name"], "arguments": arguments}]
    if "equals-number" in accept:
        number = re.search(r"-?\d+", answer.split("=")[-1])
        return number is not None and int(number[0]) == accept["equals-number"]
    wanted = accept.get("all", [])
    count = accept.get("count", {"of": [], "min": 0})
    return (
        ("equals" not in accept or fold(answer).strip(" .!") == fold(accept["equals"]).strip(" ."))
        and occurring(wanted) == len(wanted)
        and ("any" not in accept or occurring(accept["any"]) > 0)
        and occurring(count["of"]) >= count["min"]
        and len(answer.split()) >= accept.get("min-words", 0)
        and occurring(accept.get("not", [])) == 0
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts the right answers to eval.jsonl, category by category.")
    parser.add_argument("--model", default="demo", help="path of a container (default: the bundled demo model)")
    parser.add_argument("--questions", type=Path, default=QUESTIONS, help="a file like eval.jsonl")
    parser.add_argument("--memory", help="ceiling for the process, such as 500MB")
    parser.add_argument("--out", type=Path, help="write the answers to this file, one JSON object a line")
    parser.add_argument("--show", default="", help='print answers: "wrong", or the name of a category')
    args = parser.parse_args()

    questions = [json.loads(line) for line in args.questions.read_text(encoding="utf-8").splitlines()]
    table: dict[str, list[bool]] = defaultdict(list)
    records, tokens, start = [], 0, time.monotonic()
    with Engine(args.model, memory=args.memory) as engine:
        for question in questions:
            completion = engine.complete(
                question["messages"],
                tools=question.get("tools"),
                enable_thinking=question["enable_thinking"],
                max_tokens=question["max_tokens"],
                temperature=0,
            )
            ended = completion.finish_reason == "stop"
            right = ended and is_accepted(question["accept"], completion.text)
            tokens += len(completion.token_ids)
            table[question["category"]].append(right)
            prompt = question["messages"][-1]["content"]
            records.append(
                {"id": question["id"], "right": right, "ended": ended, "prompt": prompt, "answer": completion.text}
            )
            if args.show == question["category"] or (args.show == "wrong" and not right):
                print("right" if right else "WRONG", question["id"], "|", prompt, "|", repr(completion.text))

    for category, results in table.items():
        print(f"{category:18} {sum(results):4} of {len(results):3}")
    right = sum(record["right"] for record in records)
    seconds = time.monotonic() - start
    print(
        f"{'all':18} {right:4} of {len(records):3} = {right / len(records):.1%}; {tokens:,} tokens in {seconds:.0f} s"
    )
    if args.out:
        args.out.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")


if __name__ == "__main__":
    main()
