"""What an aggregator publishes, and the file it is written to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..errors import BadData, NotFound
from ..text.reading import json_of, text_of

MODULUS = 2**64
# The name of the only group, where there are none.
EVERYBODY = ""


@dataclass(frozen=True)
class Aggregated:
    """What one aggregator publishes: sums modulo 2^64 by public group, and over whom."""

    fingerprint: str
    aggregator: int
    roster: str
    respondents: dict[str, int]
    dropped: int
    sums: dict[str, list[list[int]]]
    noisy: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; the sums are texts, since not every reader keeps 64 bits."""
        return {
            "question": self.fingerprint,
            "aggregator": self.aggregator,
            "roster": self.roster,
            "respondents": self.respondents,
            "dropped": self.dropped,
            "noisy": self.noisy,
            "sums": {group: [[str(value) for value in row] for row in rows] for group, rows in self.sums.items()},
        }

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Aggregated:
        """The sums of a JSON file."""
        return cls.from_dict(read_of_aggregator(path))

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Aggregated:
        """The sums that `to_dict` wrote.

        >>> one = Aggregated("0123456789abcdef", 1, "ab", {"": 2}, 0, {"": [[1, 2**64 - 1]]}, False)
        >>> Aggregated.from_dict(one.to_dict()) == one
        True
        """
        if not isinstance(fields, dict) or not {"question", "aggregator", "roster", "respondents", "sums", "noisy"} <= set(
            fields
        ):
            raise BadData("this is not a file of an aggregator", hint="dpsurvey local aggregate writes it")
        texts = [value for rows in _lists(fields["sums"]) for row in rows for value in row]
        counted, dropped = fields["respondents"], fields.get("dropped", 0)
        sound = (
            isinstance(fields["question"], str)
            and isinstance(fields["roster"], str)
            and isinstance(fields["noisy"], bool)
            and all(type(each) is int and each >= 0 for each in (fields["aggregator"], dropped))
            and isinstance(counted, dict)
            and all(type(each) is int and 0 < each < 2**53 for each in counted.values())
            and set(counted) == set(fields["sums"])
            and all(isinstance(value, str) and value.isascii() and value.isdigit() and int(value) < MODULUS for value in texts)
        )
        if not sound:
            raise BadData("the file of an aggregator was changed or cut off", hint="ask the aggregator for it again")
        sums = {group: [[int(value) for value in row] for row in rows] for group, rows in fields["sums"].items()}
        own = (fields["aggregator"], fields["roster"], dict(counted), dropped, sums, fields["noisy"])
        return cls(fields["question"], *own)


def read_of_aggregator(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The keys of a JSON file that an aggregator wrote."""
    name = os.path.basename(path)
    if not os.path.isfile(path):
        raise NotFound(f"there is no file {os.fspath(path)!r}")
    try:
        fields = json_of(text_of(path))
    except ValueError:
        raise BadData(f"{name!r} cannot be read", because="it was cut off, or is not a JSON file") from None
    if not isinstance(fields, dict):
        raise BadData(f"{name!r} is not a file of an aggregator")
    return fields


def _lists(sums: Any) -> list[list[list[Any]]]:
    """The rows of all groups; nothing where the shape is another."""
    if not isinstance(sums, dict):
        return []
    shaped = all(isinstance(rows, list) and all(isinstance(row, list) for row in rows) for rows in sums.values())
    return list(sums.values()) if shaped else [[[None]]]
