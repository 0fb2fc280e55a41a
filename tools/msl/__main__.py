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
        choices=["cpu", "index", "embed", "embed-cuda"],
        help="cpu: one shader as C++; index: the list of those; embed: shaders as text; embed-cuda: as CUDA C++",
    )
    parser.add_argument("shaders", nargs="+", type=Path)
    parser.add_argument("-I", dest="include", type=Path, required=True, help="the folder of their headers")
    parser.add_argument("-o", dest="output", type=Path, required=True)
    options = parser.parse_args()
    shaders: list[Path] = options.shaders
    try:
        sources = [load(path, options.include) for path in shaders]
        match options.what:
            case "cpu":
                text = emit.cpu(parse(sources[0]))
            case "index":
                text = emit.index([source.name for source in sources])
            case "embed":
                text = emit.embedded({source.name: source.text for source in sources}, "shader_texts")
            case _:
                texts = {source.name: emit.cuda(parse(source)) for source in sources}
                text = emit.embedded({"prelude": emit.cuda_prelude(), **texts}, "cuda_texts")
    except MslError as error:
        print(error, file=sys.stderr)
        return 1
    options.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
