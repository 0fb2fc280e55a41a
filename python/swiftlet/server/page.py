"""The chat page. It loads nothing from elsewhere, and could not if it wanted to."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).with_name("page")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_FILES = {path.name: path for path in _FOLDER.iterdir() if path.suffix in _TYPES}
_HEADERS = {
    # Whatever a model writes: no script but ours runs, and nothing is loaded from or sent to anywhere else.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def page_file(request: Request) -> Response:
    """The page, or one of its files."""
    path = _FILES.get(request.path_params.get("name", "index.html"))
    if path is None:
        raise HTTPException(404)
    return Response(path.read_bytes(), headers=_HEADERS, media_type=_TYPES[path.suffix])
