"""The columns of a table that say how its rows were drawn: one value, with one set of keywords, checks and words.

A collected file, a sample that is estimated without privacy and a table of local reports are all described by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypedDict, TypeVar

from ..errors import BadData, BadValue, NotFound, close_name
from ..text.keys import check_keys

# The name of a column; for a table in memory also an array, and for weights, probs and fpc one number for all rows.
Column = TypeVar("Column")

FRACTION = "fpc holds population sizes, not sampling fractions"


class ColumnKeys(TypedDict, Generic[Column], total=False):
    """The keyword arguments of whatever takes design columns; `DesignColumns` says what they mean."""

    strata: Column | None
    psu: Column | None
    ssu: Column | None
    weights: Column | None
    probs: Column | None
    fpc: Column | tuple[Column, ...] | None


@dataclass(frozen=True)
class DesignColumns(Generic[Column]):
    """Columns that say how rows were drawn.

    strata    the stratum
    psu, ssu  the unit of the first stage (without it each row is a unit), and of the second, inside psu
    weights   how many units of the population a row stands for; or
    probs     its inclusion probability, one over the weight
    fpc       the POPULATION size of the stratum, in units of the first stage; for two stages a pair, the second being the
              number of second-stage units in the first-stage unit. Never a sampling fraction

    >>> DesignColumns(strata="region", weights="w").given()
    {'strata': 'region', 'weights': 'w'}
    >>> DesignColumns(ssu="household")
    Traceback (most recent call last):
    dpsurvey.errors.BadValue: ssu needs psu, the column of the units it lies in
      given: ssu='household'
    """

    strata: Column | None = None
    psu: Column | None = None
    ssu: Column | None = None
    weights: Column | None = None
    probs: Column | None = None
    fpc: Column | tuple[Column, ...] | None = None

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            for each in value if name == "fpc" and isinstance(value, tuple) else (value,):
                _check_column(name, each)
        if self.ssu is not None and self.psu is None:
            raise BadValue("ssu needs psu, the column of the units it lies in", given=_given("ssu", self.ssu))
        if self.weights is not None and self.probs is not None:
            raise BadValue("both weights and probs were given", hint="a weight is one over a probability; give one of them")
        stages = len(self.populations)
        if stages > (1 if self.ssu is None else 2) or (self.fpc is not None and not stages):
            raise no_such_stages()

    def given(self) -> dict[str, Any]:
        """The columns that were given, by their keyword.

        >>> DesignColumns(psu="cluster", fpc=24).given()
        {'psu': 'cluster', 'fpc': 24}
        """
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}

    @property
    def populations(self) -> tuple[Column, ...]:
        """The population sizes by stage, first stage first; empty where none were given."""
        return () if self.fpc is None else self.fpc if isinstance(self.fpc, tuple) else (self.fpc,)

    @property
    def tell_weights(self) -> bool:
        """Whether the weights of rows follow from the columns."""
        return not (self.weights is None and self.probs is None and self.fpc is None)


NO_COLUMNS: DesignColumns[str] = DesignColumns()


def named_columns(given: Mapping[str, Any], what: str = "the design columns") -> DesignColumns[str]:
    """Design columns by their names, from keyword arguments or as TOML and JSON write them.

    >>> named_columns({"psu": "cluster", "ssu": "household", "fpc": ["clusters", "households"]}).populations
    ('clusters', 'households')
    >>> named_columns({"wieghts": "w"})
    Traceback (most recent call last):
    dpsurvey.errors.BadValue: unknown key 'wieghts' in the design columns
      hint: did you mean 'weights'?
    """
    found = any_columns({name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}, what)
    for name, value in found.given().items():
        for each in value if isinstance(value, tuple) else (value,):
            if not isinstance(each, str):
                raise BadValue(f"{name} is the name of a column", given=_given(name, each))
    return found


def any_columns(given: Mapping[str, Any], what: str = "the design columns") -> DesignColumns[Any]:
    """Design columns from keyword arguments: names, and for a table in memory arrays and numbers.

    >>> any_columns({"weights": [10.0, 20.0]}).tell_weights
    True
    """
    check_keys(what, given, (), [each.name for each in fields(DesignColumns)])
    return DesignColumns(**given)


def _check_column(name: str, value: Any) -> None:
    """Refuse what is not a column, and one number for all rows that cannot be right."""
    if value == "" if isinstance(value, str) else isinstance(value, bool | Mapping):
        raise BadValue(f"{name} is the name of a column", given=_given(name, value))
    if isinstance(value, int | float):
        if not 0.0 < value < float("inf"):
            raise BadValue(f"{name} is not a positive number", given=_given(name, value))
        if name == "fpc" and value < 1.0:
            raise BadValue(FRACTION, given=_given(name, value), hint="a sample of 100 drawn at 0.2 has fpc=500")
        if name == "probs" and value > 1.0:
            raise BadValue("an inclusion probability is above 1", given=_given(name, value))


def _given(name: str, column: Any) -> str:
    return f"{name}={column!r}" if isinstance(column, str | int | float) else name


def _subject(name: str, column: Any) -> str:
    return f"the column {column!r}" if isinstance(column, str) else f"the array of {name}"


def no_such_stages() -> BadValue:
    """Population sizes that are not those of the stages."""
    return BadValue("fpc and stages do not match", hint="give one population size column for each of psu and ssu")


def no_column(name: str, role: str, known: Iterable[str], otherwise: str) -> NotFound:
    """A column that the table does not have.

    >>> str(no_column("regoin", "strata", ["region", "w"], "")).splitlines()
    ["there is no column 'regoin'", "  given: strata='regoin'", "  hint: did you mean 'region'?"]
    """
    return NotFound(f"there is no column {name!r}", given=_given(role, name), hint=close_name(name, known, otherwise))


def missing_values(role: str, column: Any) -> BadData:
    """A design column with empty cells."""
    return BadData(
        f"{_subject(role, column)} has missing values",
        because="the design of such a row is unknown",
        hint=f"{role} needs a value in every row; a category of its own is one",
    )


def not_positive(role: str, column: Any) -> BadData:
    """Weights, probabilities or population sizes that are not positive numbers.

    >>> not_positive("fpc", "N").what
    "the column 'N' has values that are not positive numbers"
    """
    hints = {
        "weights": "weights say how many units a row stands for; leave out rows that stand for nobody",
        "probs": "probs are the chances by which rows were drawn; leave out rows that had none",
        "fpc": "fpc is the number of clusters, or of units, that the stratum has",
    }
    what = f"{_subject(role, column)} has values that are not positive numbers"
    return BadData(what, hint=hints[role])


def population_too_small() -> BadData:
    """More units in the sample than its population has."""
    return BadData("a population is smaller than the sample drawn from it", hint=FRACTION)


def population_varies() -> BadData:
    """Two population sizes in one stratum."""
    return BadData("the population size varies within a stratum", hint="fpc holds one size for each stratum of its stage")
