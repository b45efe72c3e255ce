"""Drawing a sample, writing it to a file, and sealing it in the ledger: all of it or nothing."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from ..design.key import Key
from ..design.recipe import Step
from ..errors import BadValue
from ..ledger import Ledger, SealedSample
from ..ledger.terms import Terms
from .sample_file import write_sample_file

if TYPE_CHECKING:
    from ..engine import Engine, Expectations

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RandomNumbers:
    """Where the random numbers of a draw come from: a key and where it starts, or nothing that can be made again."""

    key: Key | None = None
    start: float = 0.0

    @property
    def commitment(self) -> str | None:
        """What stands for the key on record."""
        return self.key.commitment if self.key else None

    @property
    def begins(self) -> float | None:
        """Where the numbers of a keyed draw start."""
        return self.start if self.key else None


def check_numbers(recipe: Step, key: Key | None, start: float) -> None:
    """Refuse a key or a start that this design cannot be drawn with."""
    if not isinstance(key, Key | None):
        raise BadValue("key= takes a Key", given=f"a {type(key).__name__}", hint='Key.read("panel.key")')
    if isinstance(start, bool) or not isinstance(start, int | float) or not 0.0 <= start < 1.0 or (start and key is None):
        raise BadValue("start is a number in [0, 1), and needs a key", given=f"start={start}, key={'given' if key else None}")
    if start and not recipe.can_be_shifted:
        raise BadValue(
            "a start does not coordinate this design",
            because="who is drawn does not depend on the order of the permanent random numbers alone",
            hint="srs, poisson, proportional, Pareto PPS, and strata or clusters drawn by them can be coordinated",
        )


def draw_and_seal(
    terms: Terms,
    engine: Engine,
    ledger: Ledger,
    expected: Expectations,
    target: str,
    numbers: RandomNumbers,
    *,
    new: bool,
    progress: Progress,
) -> SealedSample:
    """Draw, write the sample file with its manifest, and put its hash on record."""
    recipe = terms.design.recipe()
    progress("drawing in secret", 0, 100)
    engine.draw(recipe, expected, numbers.key, numbers.start, lambda done: progress("drawing in secret", int(99 * done), 100))
    engine.check_unchanged()
    progress("drawing in secret", 100, 100)
    progress("writing and sealing", 0, 1)
    file_key, found = secrets.token_hex(32), SealedSample(uuid.uuid4().hex)
    manifest = {
        "sample": found.id,
        "survey": terms.name,
        "design": terms.design.to_dict(),
        "counts": recipe.fixed_counts,
        "engine": engine.name,
        "software": f"dpsurvey {version('dpsurvey')}",
        "key_commitment": numbers.commitment,
        "start": numbers.begins,
    }

    def seal(commitment: str) -> None:
        nonlocal found
        found = SealedSample(found.id, target, file_key, commitment, numbers.commitment, numbers.begins)
        ledger.seal(terms.name, found, new=new)

    write_sample_file(target, lambda file: engine.write_sample(file, terms.frame.unit, recipe), file_key, manifest, seal)
    progress("writing and sealing", 1, 1)
    return found
