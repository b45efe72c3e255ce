"""survey.toml: the same Survey and Plan as in Python, written down. Unknown keys are errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..design import design_from_dict
from ..design.frame import Frame
from ..errors import BadValue, NotFound, did_you_mean
from ..mechanism import MECHANISMS
from ..privacy import Budget, Setting
from ..privacy.relation import NeighboursName
from ..privacy.setting import Phase
from ..statistic import Statistic, statistic_from_dict
from ..text.reading import text_of, toml_of
from ..text.writing import write_file
from .fieldwork import Fieldwork
from .plan import Plan
from .survey import Progress, Survey


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Survey(_Section):
    name: str = Field(min_length=1)
    ledger: str = Field(min_length=1)
    anchor: str | None = Field(default=None, min_length=1)
    weight_range: list[float] | dict[str, list[float]] | None = None


class _Frame(_Section):
    table: str
    unit: str | None = None
    size: int | None = None
    categories: dict[str, list[str | int | bool] | dict[str, int]] = {}
    public: list[str] = []
    population: str = ""
    size_at_least: int | dict[str, dict[str, int]] | None = None


class _Setting(_Section):
    protect: Phase
    given: Phase | None = None
    neighbours: NeighboursName


class _Budget(_Section):
    epsilon: float
    delta: float = 0.0


class _Release(_Section):
    share: float = 1.0
    weights: list[float] = []
    noise: str = "auto"

    @field_validator("noise")
    @classmethod
    def _on_the_list(cls, noise: str) -> str:
        if noise not in (known := ("auto", *MECHANISMS)):
            raise ValueError("known kinds of noise are " + ", ".join(known))
        return noise


class _Fieldwork(_Section):
    response: float | dict[str, float] = 1.0
    cost: float | dict[str, float] = 0.0
    cluster_cost: float = 0.0
    fixed_cost: float = 0.0
    budget: float | None = None


class _File(_Section):
    survey: _Survey
    frame: _Frame
    design: dict[str, Any]
    setting: _Setting | None = None
    budget: _Budget
    release: _Release = _Release()
    fieldwork: _Fieldwork | None = None
    statistic: list[dict[str, Any]] = []


class SurveyFile:
    """A survey.toml that was read: builds the Survey, and the Plan of its statistics.

    Paths in it are relative to the file.
    """

    def __init__(self, content: _File, folder: Path) -> None:
        self._content, self._folder = content, folder

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SurveyFile:
        """Read and check a survey.toml; no row is read."""
        file = Path(path)
        if not file.is_file():
            raise NotFound(f"there is no file {os.fspath(path)!r}", hint="dpsurvey init writes one to start from")
        try:
            content = _File.model_validate(_whole_floats(toml_of(text_of(file))))
        except ValidationError as error:
            raise _explain(error, os.fspath(path)) from None
        except ValueError as error:
            raise BadValue("the survey file is not valid TOML", because=str(error), given=os.fspath(path)) from None
        return cls(content, file.resolve().parent)

    @property
    def ledger(self) -> str:
        """The path or address of the ledger."""
        return self._place(self._content.survey.ledger)

    @property
    def anchor(self) -> str | None:
        """The path or address of its anchor, where there is one."""
        written = self._content.survey.anchor
        return self._place(written) if written else None

    def _place(self, written: str) -> str:
        return written if "://" in written else str(self._folder / written)

    @property
    def name(self) -> str:
        """The name of the survey."""
        return self._content.survey.name

    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that are asked."""
        return tuple(statistic_from_dict(fields) for fields in self._content.statistic)

    def survey(self, progress: Progress | None = None, engine: str = "duckdb") -> Survey:
        """The Survey, as Python would build it, on an engine."""
        content = self._content
        return Survey(
            Frame(**content.frame.model_dump() | {"table": self._place(content.frame.table)}),
            design_from_dict(content.design),
            Setting(**content.setting.model_dump()) if content.setting else None,
            budget=Budget(**content.budget.model_dump()),
            ledger=self.ledger,
            name=content.survey.name,
            weight_range=_pair(content.survey.weight_range),
            engine=engine,
            progress=progress,
            anchor=self.anchor,
        )

    def plan(self, survey: Survey, responses: Any = None, share: float | None = None) -> Plan:
        """The Plan, as Python would build it; `share` in place of that of the file."""
        release = self._content.release
        return survey.plan(
            *self.statistics(),
            share=release.share if share is None else share,
            weights=release.weights,
            responses=responses,
            noise=release.noise,
            fieldwork=self.fieldwork,
        )

    @property
    def fieldwork(self) -> Fieldwork | None:
        """What the field is expected to bring and to cost, where the file says so."""
        written = self._content.fieldwork
        return None if written is None else Fieldwork(**written.model_dump())


def write_survey_file(path: str | os.PathLike[str], survey: Survey, plan: Plan) -> None:
    """Write a survey and its plan as survey.toml; reading it back builds the same Plan."""
    terms, folder = survey.terms.to_dict(), Path(path).resolve().parent
    table = survey.terms.frame.source
    frame = terms["frame"] | {"table": table if "://" in table else os.path.relpath(table, folder)}
    places = {"ledger": survey.ledger_path} | ({"anchor": survey.anchor} if survey.anchor else {})
    written = {name: place if "://" in place else os.path.relpath(place, folder) for name, place in places.items()}
    weights = {"weight_range": terms["weight_range"]} if "weight_range" in terms else {}
    costs = plan.fieldwork.to_dict() if plan.fieldwork else {}
    fieldwork = {key: value for key, value in costs.items() if value is not None}
    content = {
        "survey": {"name": terms["name"]} | written | weights,
        "frame": {key: value for key, value in frame.items() if value is not None},
        "design": terms["design"],
        "setting": {key: value for key, value in terms["setting"].items() if value is not None},
        "budget": terms["budget"],
        "release": {"share": plan.share, "weights": list(plan.weights), "noise": plan.noise_class.kind},
        "statistic": [statistic.to_dict() for statistic in plan.statistics],
    } | ({"fieldwork": fieldwork} if fieldwork else {})
    write_file(path, tomli_w.dumps(content))


def _pair(values: Any) -> Any:
    if isinstance(values, dict):
        return {label: _pair(pair) for label, pair in values.items()}
    if values is not None and len(values) != 2:
        raise BadValue("weight_range in the survey file takes two numbers", given=repr(values), hint="[lowest, highest]")
    return None if values is None else (values[0], values[1])


def _whole_floats(content: dict[str, Any]) -> dict[str, Any]:
    """Let people write epsilon = 1 where a fraction is meant."""
    if isinstance(content.get("fieldwork"), dict):
        content["fieldwork"] = {key: _as_float(value) for key, value in content["fieldwork"].items()}
    for section, keys in (("budget", ("epsilon", "delta")), ("release", ("share",))):
        for key in keys:
            if isinstance(content.get(section), dict) and type(content[section].get(key)) is int:
                content[section][key] = float(content[section][key])
    survey = content.get("survey")
    if isinstance(survey, dict) and isinstance(ranges := survey.get("weight_range"), dict):
        survey["weight_range"] = {label: [_as_float(each) for each in pair] for label, pair in ranges.items()}
    for section, key in (("release", "weights"), ("survey", "weight_range")):
        if isinstance(content.get(section), dict) and isinstance(content[section].get(key), list):
            content[section][key] = [float(each) if type(each) is int else each for each in content[section][key]]
    return content


def _as_float(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_float(each) for key, each in value.items()}
    return float(value) if type(value) is int else value


def _explain(error: ValidationError, path: str) -> BadValue:
    # A misspelt key shows twice, as unknown and as missing; the unknown one says more.
    first = next((each for each in error.errors() if each["type"] == "extra_forbidden"), error.errors()[0])
    place: Sequence[str] = [str(part) for part in first["loc"]]
    where = ".".join(place)
    if first["type"] == "extra_forbidden":
        section: Any = _File
        for part in place[:-1]:
            annotation = section.model_fields[part].annotation
            section = next((each for each in getattr(annotation, "__args__", ()) if isinstance(each, type)), annotation)
        return BadValue(
            f"unknown key {where!r} in the survey file", given=path, hint=did_you_mean(place[-1], section.model_fields)
        )
    if first["type"] == "missing":
        return BadValue(f"the key {where!r} is missing in the survey file", given=path)
    return BadValue(f"the key {where!r} in the survey file is not right", because=str(first["msg"]), given=path)
