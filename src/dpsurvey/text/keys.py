"""Keys of designs and statistics that somebody wrote down: which are needed, which are known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from ..errors import BadValue, did_you_mean


@dataclass(frozen=True)
class Registered:
    """What is on a list: its kind, as it is written down, and the function that users call."""

    kind: str
    make: Callable[..., Any]

    @property
    def name(self) -> str:
        """The public name of the function."""
        return self.make.__name__

    @property
    def summary(self) -> str:
        """The first line of its help."""
        return (self.make.__doc__ or "").strip().split("\n")[0]


def check_keys(what: str, given: Collection[str], required: Collection[str], known: Collection[str], example: str = "") -> None:
    """Refuse an unknown key, then a missing one: a misspelt key is both, and to name it says more.

    >>> check_keys("the design 'poisson'", {"rte": 0.1}, ["rate"], ["rate"])
    Traceback (most recent call last):
    dpsurvey.errors.BadValue: unknown key 'rte' in the design 'poisson'
      hint: did you mean 'rate'?
    """
    for key in given:
        if key not in known:
            raise BadValue(f"unknown key {key!r} in {what}", hint=did_you_mean(key, known))
    for key in required:
        if key not in given:
            raise BadValue(f"the key {key!r} is missing in {what}", hint=f"for example {example}" if example else "")


def keys_of(constructor: Callable[..., Any], known: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """The keys that a constructor needs, and all that it takes: those that are `known`, where its parameters do not say.

    >>> keys_of(check_keys)[0]
    ['what', 'given', 'required', 'known']
    """
    parameters = inspect.signature(constructor).parameters
    plain = {name: each for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD}
    return [name for name, each in plain.items() if each.default is each.empty], [*known] or [*_unpacked(constructor), *plain]


def _unpacked(constructor: Callable[..., Any]) -> Iterator[str]:
    """The keys of a TypedDict that the constructor takes as its further keywords."""
    for name, each in inspect.signature(constructor).parameters.items():
        if each.kind is each.VAR_KEYWORD:
            (keys,) = get_args(get_type_hints(constructor, include_extras=True)[name])
            yield from get_type_hints(get_origin(keys) or keys)
