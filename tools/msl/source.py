"""The text of a shader with its headers in their places."""

import re
from dataclasses import dataclass
from pathlib import Path

INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"\s*(//.*)?$')
PRAGMA_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")
# Comments, strings and characters: overwritten before anything is searched for.
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


class MslError(Exception):
    """What is wrong with a shader; begins with its file and line."""


def wipe(pattern: re.Pattern[str], text: str) -> str:
    """The text with all matches overwritten by spaces: positions and lines stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


@dataclass
class Source:
    name: str  # of the file, without its extension
    text: str  # as a Metal compiler takes it: with headers in their places and #line directives
    places: list[tuple[str, int]]  # file and line that each line of `text` comes from

    def __post_init__(self) -> None:
        self.without_comments = wipe(COMMENT_OR_STRING, self.text)
        self.code = wipe(DIRECTIVE, self.without_comments)

    def place(self, position: int) -> tuple[str, int]:
        return self.places[self.text.count("\n", 0, position)]

    def error(self, position: int, message: str) -> MslError:
        file, line = self.place(position)
        return MslError(f"{file}:{line}: error: {message}")


def load(path: Path, include: Path) -> Source:
    """Reads a shader; `include` is the folder of its headers. Each header is put in once."""
    lines: list[str] = []
    places: list[tuple[str, int]] = []
    seen: set[Path] = set()

    def add(file: Path) -> None:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise MslError(f"{file}: error: cannot be read: {error.strerror}") from error
        lines.append(f'#line 1 "{file.name}"')
        places.append((file.name, 1))
        for number, line in enumerate(text.splitlines(), 1):
            if header := INCLUDE.match(line):
                target = include / header.group(1)
                if not target.is_file():
                    raise MslError(f'{file.name}:{number}: error: no header "{header.group(1)}" in {include.name}/')
                if target not in seen:
                    seen.add(target)
                    add(target)
                lines.append(f'#line {number + 1} "{file.name}"')
            elif PRAGMA_ONCE.match(line):
                lines.append("")
            else:
                lines.append(line)
            places.append((file.name, number))

    add(path)
    return Source(path.stem, "\n".join(lines) + "\n", [*places, places[-1]])
