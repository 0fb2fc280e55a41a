"""Whose turn it is: one answer at a time, and a bounded queue in which clients take turns."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """What can wait in the queue."""

    @property
    def client(self) -> str:
        """Who asks: those with more than one request do not keep the others waiting."""


Item = TypeVar("Item", bound=Waiting)


class QueueFull(Exception):
    """Too many are waiting already; `own`: too many of this client."""

    def __init__(self, waiting: int, *, own: bool) -> None:
        super().__init__(f"{waiting} requests are waiting already")
        self.own = own


class TurnQueue(Generic[Item]):
    """Runs a function on one item after the other, in a thread of its own.

    Clients take turns, and of each client the oldest item comes first. All methods may be called from any thread.
    """

    def __init__(self, work: Callable[[Item], None], max_waiting: int, max_waiting_each: int | None = None) -> None:
        self._work = work
        self._max_waiting = max_waiting
        self._max_waiting_each = max_waiting_each
        self._waiting: OrderedDict[str, deque[Item]] = OrderedDict()  # by client; whose turn is next stands first
        self._running: Item | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="swiftlet-answers", daemon=True)
        self._thread.start()

    def check(self, client: str) -> None:
        """Raises QueueFull if there is no place for another item of this client."""
        with self._changed:
            waiting, own = self._count(), self._waiting.get(client, ())
            if self._running is None and not waiting:
                return
            if waiting >= self._max_waiting:
                raise QueueFull(waiting, own=False)
            if self._max_waiting_each is not None and len(own) >= self._max_waiting_each:
                raise QueueFull(len(own), own=True)

    def put(self, item: Item) -> None:
        """Queues an item. Raises QueueFull."""
        with self._changed:
            self.check(item.client)
            self._waiting.setdefault(item.client, deque()).append(item)
            self._changed.notify()

    def discard(self, item: Item) -> None:
        """Takes an item out that is still waiting; nothing if it is not."""
        with self._changed:
            own = self._waiting.get(item.client)
            if own is not None and item in own:
                own.remove(item)
                if not own:
                    del self._waiting[item.client]

    def ahead(self, item: Item) -> int:
        """How many answers come before this one at least: 0 if it runs, or is not here."""
        with self._changed:
            own = self._waiting.get(item.client)
            if own is None or item not in own:
                return 0
            clients = list(self._waiting)
            return own.index(item) + clients.index(item.client) + (self._running is not None)

    @property
    def waiting(self) -> int:
        """Items that wait."""
        with self._changed:
            return self._count()

    @property
    def running(self) -> int:
        """1 while an item is worked on."""
        return int(self._running is not None)

    def close(self) -> None:
        """Ends the thread after the item that is worked on."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _run(self) -> None:
        while (item := self._next()) is not None:
            self._work(item)
            del item  # what it holds should not live until the next one comes

    def _next(self) -> Item | None:
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            client, own = self._waiting.popitem(last=False)
            self._running = own.popleft()
            if own:
                self._waiting[client] = own  # at the end: it is the others' turn
            return self._running
