"""JSON and TOML that somebody else wrote: read whole, or refused as what it is not.

A file may be nested so deeply that whatever goes through it runs out of room, or hold a whole number that no float can hold.
Both are found here, once, and not wherever the content is used.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable
from typing import Any

from .writing import is_in_use

# How deep lists and tables of our own files lie in each other, at most; several times what any of them needs.
DEEPEST = 60
# What a whole number looks like that may be too large for a float, and half a letter, which cannot be written again.
LONG = re.compile(r"\d{309}")
HALF = re.compile(r"\\u[dD][89a-fA-F]")

Hook = Callable[[Any], Any]


def json_of(text: str, *, pairs: Hook | None = None, floats: Hook | None = None, whole: Hook | None = None) -> Any:
    """The content of a JSON text; a ValueError where it is none, nested too deeply, or holds a number that is too large.

    Objects are made by `pairs`, numbers by `floats` and `whole`, where these are given.

    >>> json_of('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> json_of("[" * 1000 + "]" * 1000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    """
    content = _not_too_deep(lambda: json.loads(text, object_pairs_hook=pairs, parse_float=floats, parse_int=whole))
    # Most texts cannot be either, which is seen much faster than by going through them.
    if text.count("{") + text.count("[") > DEEPEST or LONG.search(text):
        _check(content)
    if HALF.search(text) and not _can_be_written(content):
        raise ValueError("it holds half a letter")
    return content


def toml_of(text: str) -> dict[str, Any]:
    """The content of a TOML text; a ValueError where it is none, nested too deeply, or holds a number that is too large.

    >>> toml_of("[a]\\nb = 1")
    {'a': {'b': 1}}
    """
    content = _not_too_deep(lambda: tomllib.loads(text))
    _check(content)
    return dict(content)


def text_of(path: str | os.PathLike[str]) -> str:
    """The text of a file; a ValueError that quotes nothing of it where it is not text in UTF-8.

    >>> text_of(__file__).count("def text_of(path")
    2
    """
    if is_in_use(path):
        raise ValueError("it is a database that is open")
    with open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    raise ValueError("it is not text in UTF-8")


def _can_be_written(content: Any) -> bool:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_too_deep(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _check(content: Any) -> None:
    level, depth = [content], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        below: list[Any] = []
        for each in level:
            if isinstance(each, int) and not -sys.float_info.max <= each <= sys.float_info.max:
                raise ValueError("a number in it is too large")
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
        level = below
