"""The chat page: one file, which loads nothing from elsewhere."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_PAGE = Path(__file__).with_name("page.html")
_HEADERS = {
    # Whatever a model writes, the page can neither load nor send anything anywhere else.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def chat_page(request: Request) -> Response:
    """The page."""
    return Response(_PAGE.read_bytes(), headers=_HEADERS, media_type="text/html")
