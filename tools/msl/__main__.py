"""The command line that the build uses."""

import argparse
import sys
from pathlib import Path

from msl import emit
from msl.kernels import parse
from msl.source import MslError, load


def main() -> int:
    parser = argparse.ArgumentParser(prog="msl", description=__doc__)
    parser.add_argument(
        "what",
        choices=["cpu", "cuda", "index", "embed"],
        help="cpu, cuda: one shader as C++ or CUDA C++; index: the list of translated shaders; embed: shaders as text",
    )
    parser.add_argument("shaders", nargs="+", type=Path)
    parser.add_argument("-I", dest="include", type=Path, required=True, help="the folder of their headers")
    parser.add_argument("-o", dest="output", type=Path, required=True)
    options = parser.parse_args()
    shaders: list[Path] = options.shaders
    try:
        if options.what == "index":
            text = emit.index([path.stem for path in shaders])
        elif options.what == "embed":
            texts = {path.stem: load(path, options.include).text for path in shaders}
            text = emit.embedded(texts, "shader_texts")
        else:
            emitter = emit.cpu if options.what == "cpu" else emit.cuda
            text = emitter(parse(load(shaders[0], options.include)))
    except MslError as error:
        print(error, file=sys.stderr)
        return 1
    options.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
