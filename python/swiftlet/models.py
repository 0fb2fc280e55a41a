"""From the name of a model to its container, and the JSON files inside."""

import json
import os
from pathlib import Path
from typing import Any

from swiftlet import _core

DEMO = Path(__file__).with_name("demo.qpack")


def resolve(model: str | os.PathLike[str] | None = None) -> Path:
    """The folder of a container: `model` is its path, or None or "demo" for the small model installed with the package.

    Raises InputError if there is no container, and says what to do instead.
    """
    if model is None or model == "demo":
        if not (DEMO / "manifest.json").is_file():
            raise _core.InputError(f"the demo model is not installed ({DEMO} is missing); give the path of a container")
        return DEMO
    path = Path(model).expanduser()
    if (path / "manifest.json").is_file():
        return path
    if (path / "config.json").is_file():
        remedy = f"swiftlet repack {path} -o {path.name}.qpack"
        raise _core.InputError(f"{path} is a checkpoint, not a container; convert it: {remedy}")
    if path.is_dir():
        raise _core.InputError(f"{path} is not a container: it has no manifest.json; make one with swiftlet repack")
    if path.exists():
        raise _core.InputError(f"{path} is a file; a container is a folder made by swiftlet repack")
    raise _core.InputError(f'there is no model {os.fspath(model)!r}; give the path of a container, or "demo"')


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} if the file does not exist. Raises ContainerError if it holds anything else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _core.ContainerError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _core.ContainerError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise _core.ContainerError(f"{path} does not hold a JSON object")
    return value
