"""The list of designs: each is put here where it is defined, and everything that names designs reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import BadValue, did_you_mean
from ..text.keys import Registered, check_keys, keys_of
from .base import Design
from .compared import AtRate, Candidate, Compared, SameSize

Make = TypeVar("Make", bound=Callable[..., Design])
Read = Callable[[Mapping[str, Any]], Design]


@dataclass(frozen=True)
class DesignKind(Registered):
    """A kind of design: the function that users call, how a survey file writes it, and its page in docs/designs.

    `compared` says how it stands among others at one sampling rate, and `candidates` how it would draw as many units as a
    plan does; None where it has no rate, or draws nothing. `commands` are what `dpsurvey amplify` has for it, by name:
    functions that make it from plain figures, whose arguments are the options. `drawn` says whether a survey draws by it.
    """

    read: Read
    needed: tuple[str, ...]
    known: tuple[str, ...]
    page: str
    commands: Mapping[str, Callable[..., Design]]
    compared: Callable[[AtRate], Iterator[Compared]] | None = None
    candidates: Callable[[SameSize], Iterator[Candidate]] | None = None
    drawn: bool = True


DESIGNS: dict[str, DesignKind] = {}


def register(
    kind: str,
    *,
    page: str = "",
    read: Read | None = None,
    renamed: Mapping[str, str] | None = None,
    compared: Callable[[AtRate], Iterator[Compared]] | None = None,
    candidates: Callable[[SameSize], Iterator[Candidate]] | None = None,
    commands: Mapping[str, Callable[..., Design]] | None = None,
    drawn: bool = True,
) -> Callable[[Make], Make]:
    """Put a design on the list; decorates the function that makes it.

    Its arguments are the keys of a survey file, but for those in `renamed`, which are written under another key; and the
    options of `dpsurvey amplify KIND`, unless `commands` says otherwise.
    """

    def add(make: Make) -> Make:
        names = renamed or {}
        needed, known = ([names.get(key, key) for key in keys] for keys in keys_of(make))
        back = {written: name for name, written in names.items()}

        def plain(fields: Mapping[str, Any]) -> Design:
            return make(**{back.get(key, key): design_in(value) for key, value in fields.items()})

        own = {kind: make} if commands is None else commands
        DESIGNS[kind] = DesignKind(
            kind, make, read or plain, tuple(needed), tuple(known), page or kind, own, compared, candidates, drawn
        )
        return make

    return add


def design_in(value: Any) -> Any:
    """What stands in a field of a design: another design where it is written as one, else the value itself."""
    return design_from_dict(value) if isinstance(value, Mapping) and isinstance(value.get("kind"), str) else value


def design_from_dict(fields: Mapping[str, Any]) -> Design:
    """The design that `to_dict` wrote.

    >>> from dpsurvey.design import poisson
    >>> design_from_dict({"kind": "poisson", "rate": 0.02}) == poisson(0.02)
    True
    """
    rest = {key: value for key, value in fields.items() if key != "kind"}
    kind = str(fields.get("kind", ""))
    if kind not in DESIGNS:
        drawn = [each.kind for each in DESIGNS.values() if each.drawn]
        if "kind" not in fields:
            raise BadValue(
                "a design has a kind",
                given=", ".join(map(str, fields)) or "nothing",
                hint=did_you_mean("", drawn, "kind is one of"),
            )
        raise BadValue(f"unknown kind of design {kind!r}", hint=did_you_mean(kind, drawn))
    entry = DESIGNS[kind]
    check_keys(f"the design {kind!r}", rest, entry.needed, entry.known)
    try:
        return entry.read(rest)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadValue(
            f"the design {kind!r} is not written as it should be", given=", ".join(rest) or "nothing", hint=str(error)
        ) from None
