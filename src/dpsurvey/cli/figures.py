"""The options of a function that makes a design: what its signature says of each figure, and how it is read."""

from __future__ import annotations

import inspect
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from ..design.registry import design_in
from ..errors import BadValue
from .options import Option, numbers, table_of


@dataclass(frozen=True)
class Figure:
    """An argument of a design as an option: its key on the command line, its type there, and how it is read."""

    name: str
    key: str
    annotation: Any
    default: Any
    read: Callable[[Any], Any]

    def is_given(self, given: Mapping[str, Any]) -> bool:
        """Whether the command line has it, so that the design's own default does not count."""
        return self.default is ... or given[self.key] != self.default


def figures_of(make: Callable[..., Any], taken: Collection[str] = ()) -> list[Figure]:
    """The options of a function, from its signature; a name that is taken is put behind the word design.

    >>> from dpsurvey.design import poisson
    >>> [(each.key, each.default) for each in figures_of(poisson)]
    [('rate', Ellipsis)]
    """
    try:
        signature = inspect.signature(make, eval_str=True)
    except NameError:
        # A name that only type checkers know.
        signature = inspect.signature(make)
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [_figure(each, taken) for each in signature.parameters.values() if each.kind not in several]


def _figure(parameter: inspect.Parameter, taken: Collection[str]) -> Figure:
    name = parameter.name
    key = f"design_{name}" if name in taken else name
    option = key.replace("_", "-")
    needed = parameter.default is parameter.empty
    kind, note = _kind_and_note(parameter.annotation)
    if kind is parameter.empty and not needed and parameter.default is not None:
        kind = type(parameter.default)
    shown, read = _as_option(kind, option)
    # The default of what is read from text is not text.
    default = ... if needed else parameter.default if read is _same else None
    if default is None:
        shown = shown | None
    return Figure(name, key, Annotated[shown, Option(help=note)], default, read)


def _kind_and_note(annotation: Any) -> tuple[Any, str]:
    """The type below Annotated and `| None`, and what Annotated says of it."""
    note = ""
    while True:
        origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            annotation, note = inside[0], next((each for each in inside[1:] if isinstance(each, str)), note)
        elif origin in (typing.Union, types.UnionType) and len(rest := [each for each in inside if each is not type(None)]) == 1:
            annotation = rest[0]
        elif origin is Literal:
            return annotation, note or " or ".join(map(str, inside))
        else:
            return annotation, note


def _as_option(kind: Any, option: str) -> tuple[Any, Callable[[Any], Any]]:
    """The type of the option, and how its value becomes that of the argument."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind in (int, float, str, bool) or (origin is tuple and all(each in (int, float, str) for each in inside)):
        return kind, _same
    if origin is Literal and all(isinstance(each, str) for each in inside):
        return str, _same
    listed = inside[0] if isinstance(origin, type) and issubclass(origin, Sequence) and inside else None
    if listed in (int, float):
        return str, partial(numbers, option=option, kind=listed)
    if isinstance(listed, type) and issubclass(listed, tuple) and hasattr(listed, "_fields"):
        return Path, partial(_lines, option=option, line=listed)
    return str, partial(_as_in_a_survey_file, option=option)


def _same(value: Any) -> Any:
    return value


def _lines(file: Path, option: str, line: Any) -> list[Any]:
    """The lines of a CSV file, as named tuples."""
    types_of = typing.get_type_hints(line)
    try:
        return [line(*(types_of[name](row[name]) for name in line._fields)) for row in table_of(file, line._fields, option)]
    except (KeyError, TypeError, ValueError):
        whole = ", ".join(name for name, kind in types_of.items() if kind is int)
        hint = f"{whole} whole" if whole else ""
        raise BadValue(f"--{option} has a field that is not a number, or too few", hint=hint) from None


def _as_in_a_survey_file(text: str, option: str) -> Any:
    """A value as TOML writes it, such as { kind = "poisson", rate = 0.1 } for a design; plain words are text."""
    with suppress(tomllib.TOMLDecodeError):
        return design_in(tomllib.loads(f"value = {text}")["value"])
    if any(sign in text for sign in "{}[]="):
        raise BadValue(f"--{option} cannot be read", given=text[:60], hint="write it as in a survey file")
    return text
