"""Progress of long work: how far the engine is with the query it runs, asked from a thread beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ibis.expr.types import Table

from .dialect import dialect_of

SECONDS = 0.2


@contextmanager
def watching(table: Table, report: Callable[[float], None] | None) -> Iterator[None]:
    """Report the share of the running query that is done, from 0 to 1, a few times a second; it starts anew with each query."""
    ask = dialect_of(table).progress(table.get_backend()) if report is not None else None
    if ask is None or report is None:
        yield
        return
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(SECONDS):
            # A watcher must never disturb the work that it watches.
            with suppress(Exception):
                done = ask()
                if done is not None:
                    report(done)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
