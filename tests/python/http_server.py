"""A server over real HTTP in this process, with any engine."""

import threading
import time
from contextlib import contextmanager

from swiftlet.server.run import listen, make_server
from swiftlet.server.settings import Settings


@contextmanager
def serving(engine, **settings):
    """The address of a server that runs meanwhile."""
    listener = listen("127.0.0.1", 0)
    server = make_server(engine, Settings(**{"name": "demo", **settings}), drain_seconds=5)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def wait_until(condition, seconds=10.0):
    """Returns as soon as the condition holds; fails if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)
