"""The formats that a release is saved in: each is put on this list by the room that writes it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

Content = Callable[[Any], bytes]
Write = TypeVar("Write", bound=Content)


class Format(NamedTuple):
    """How the content of a file is made from a release.

    A file that carries `mark` was made by the same function, and another one may replace it; without a mark nothing is replaced.
    """

    ending: str
    content: Content
    mark: str = ""


FORMATS: dict[str, Format] = {}
# The report is written by a room above the one that saves, which is loaded when something is saved.
WRITES_REPORTS = "dpsurvey.view"


def formats() -> dict[str, Format]:
    """Every format by the ending of its files.

    >>> formats()[".htm"].ending
    '.html'
    """
    import_module(WRITES_REPORTS)
    return FORMATS


def register_format(ending: str, *aliases: str, mark: str = "") -> Callable[[Write], Write]:
    """Put a format on the list, under the ending of its files; decorates the function that makes the content.

    >>> @register_format(".count")
    ... def count_of(release):
    ...     return str(len(release.estimates)).encode()
    >>> FORMATS.pop(".count").content is count_of
    True
    """

    def add(content: Write) -> Write:
        for each in (ending, *aliases):
            FORMATS[each] = Format(ending, content, mark)
        return content

    return add
