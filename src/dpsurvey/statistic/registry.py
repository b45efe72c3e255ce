"""The list of statistics: each is put here where it is defined, and everything that names statistics reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import BadValue, did_you_mean
from ..text.keys import Registered, check_keys, keys_of
from .base import Statistic

Make = TypeVar("Make", bound=Callable[..., Statistic])
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class StatisticKind(Registered):
    """A kind of statistic as a survey file writes it, and the function that users call.

    `example` is how it looks in survey.toml, `section` its heading in docs/guides/statistics.md; `of_another`
    says that its key "of" is a whole statistic and not a column.
    """

    example: str
    section: str
    of_another: bool
    needed: tuple[str, ...]
    known: tuple[str, ...]
    read: Callable[[dict[str, Any]], Statistic]
    also: Callable[[str, Fields], bool] | None = None


STATISTICS: dict[str, StatisticKind] = {}


def register(
    example: str,
    *,
    section: str = "",
    of_another: bool = False,
    known: Sequence[str] = (),
    read: Callable[[dict[str, Any]], Statistic] | None = None,
    also: Callable[[str, Fields], bool] | None = None,
) -> Callable[[Make], Make]:
    """Put a statistic on the list; decorates the function that makes it.

    Its kind is the name of the function, and its arguments are the keys of a survey file. Where they are written otherwise,
    `read` makes the statistic from the keys; `known` are all keys where the arguments do not say. `also` recognises what is
    saved under the kind of another.
    """

    def add(make: Make) -> Make:
        kind = make.__name__.replace("_", " ")
        needed, keys = keys_of(make, known)

        def plain(fields: dict[str, Any]) -> Statistic:
            return make(**(fields | ({"of": statistic_from_dict(fields["of"])} if of_another else {})))

        STATISTICS[kind] = StatisticKind(
            kind, make, example, section or kind, of_another, tuple(needed), tuple(keys), read or plain, also
        )
        return make

    return add


def statistic_from_dict(fields: Fields) -> Statistic:
    """The statistic that `to_dict` wrote, or that somebody wrote in survey.toml under the name of its constructor.

    >>> import dpsurvey.statistic
    >>> statistic_from_dict({"kind": "mean", "of": "age", "bounds": [0, 120]}).name
    'mean of age'
    >>> statistic_from_dict({"kind": "median", "of": "age", "bounds": [0, 120]}).name
    'quantile of age at 0.5'
    """
    if not isinstance(fields, Mapping) or "kind" not in fields:
        raise BadValue("a statistic is written with its kind", hint=STATISTICS["mean"].example)
    rest = {key: value for key, value in fields.items() if key != "kind"}
    kind = str(fields["kind"]).replace("_", " ")
    entry = next((each for each in STATISTICS.values() if each.also and each.also(kind, rest)), STATISTICS.get(kind))
    if entry is None:
        raise BadValue(
            f"unknown kind of statistic {kind!r}",
            hint=did_you_mean(kind.replace(" ", "_"), [each.name for each in STATISTICS.values()]),
        )
    check_keys(f"the statistic {entry.kind!r}", rest, entry.needed, entry.known, entry.example)
    if entry.of_another and not isinstance(rest["of"], Mapping):
        raise BadValue(f"the key 'of' of {entry.kind!r} is a whole statistic, with its kind", hint=entry.example)
    if not entry.of_another and "of" in rest and not isinstance(rest["of"], str | None):
        raise BadValue(f"the key 'of' of {entry.kind!r} is the name of a column", hint=entry.example)
    try:
        made = entry.read(rest)
        # A plan compares statistics; a list where a word or a number belongs would fail there.
        hash(made)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Python's own words about a value of the wrong shape help nobody who wrote a TOML file.
        raise BadValue(
            f"the statistic {entry.kind!r} is not written as it should be", hint="for example " + entry.example
        ) from error
    return made
