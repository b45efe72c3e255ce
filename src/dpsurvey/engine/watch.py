"""Progress of long work: how far the engine is with the query it runs, asked from a thread beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SECONDS = 0.2


@contextmanager
def watching(backend: Any, report: Callable[[float], None] | None) -> Iterator[None]:
    """Report the share of the running query that is done, from 0 to 1, a few times a second; it starts anew with each query."""
    ask = _asker(backend) if report is not None else None
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


def _asker(backend: Any) -> Callable[[], float | None] | None:
    if backend.name == "duckdb":
        backend.raw_sql("set enable_progress_bar = true")
        backend.raw_sql("set enable_progress_bar_print = false")

        def percent() -> float | None:
            found = backend.con.query_progress()
            return None if found < 0 else min(1.0, found / 100.0)

        return percent
    if backend.name == "pyspark":
        context = getattr(backend._session, "sparkContext", None)
        return None if context is None else lambda: _tasks_done(context.statusTracker())
    return None


def _tasks_done(tracker: Any) -> float | None:
    """The share of the tasks of the running stages that are done."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    total = sum(stage.numTasks for stage in stages if stage)
    return sum(stage.numCompletedTasks for stage in stages if stage) / total if total else None
