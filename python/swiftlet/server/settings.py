"""How a server behaves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits, names and who may ask."""

    name: str
    """The model's name in the API."""
    aliases: tuple[str, ...] = ()
    """More names for it; "*": any name will do."""
    api_keys: tuple[str, ...] = ()
    """One of them must come with each request; none: everybody may ask."""
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    """Names that the Host header may have, besides those of this machine and plain addresses."""
    cors_origins: tuple[str, ...] = ()
    """Web pages from elsewhere that may ask; "*": all."""
    max_body: int = 32 * 1024 * 1024
    """Bytes of a request."""
    max_waiting: int = 32
    """Requests that wait for their turn; what comes when they are so many gets a 503."""
    max_waiting_each: int | None = None
    """How many of them may belong to one client; past it, a 429. Default: no limit of its own."""
    keepalive_seconds: float = 5.0
    """A stream that has nothing to say tells after this time that it is alive."""
    chat_page: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are listed, the main one first."""
        return (self.name, *(alias for alias in self.aliases if alias != "*"))
