"""Reasoning models answer with their thoughts first, then </think>, then what they have to say."""

BEGIN, END = "<think>", "</think>"


def split_thinking(text: str, *, begun: bool) -> tuple[str | None, str]:
    """Reasoning (None: there is none) and content of an answer. `begun`: the prompt ended inside the thoughts."""
    if END in text:
        thought, content = text.split(END, 1)
    elif begun or text.lstrip().startswith(BEGIN):
        thought, content = text, ""
    else:
        return None, text
    return thought.strip().removeprefix(BEGIN).strip(), content.lstrip("\n")


def begins_thinking(prompt: str) -> bool:
    """True if the answer to this rendered prompt begins inside the thoughts."""
    return prompt.rstrip().endswith(BEGIN)
