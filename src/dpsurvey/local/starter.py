"""Question files to start from."""

from __future__ import annotations

from ..errors import BadValue

TOP = """\
# Whatever stands here is public, and fixed before the first answer: a change makes another question.
name = "smokes"
text = "Have you smoked in the last seven days?"
categories = ["no", "yes"]
# instead of categories, for numbers: ranges = { low = 0, high = 100, width = 10 }
# for places: grid = { size = "2 km", box = [48.8, 2.2, 48.9, 2.5] }
# no_answer = true     # not answering is one more category, and hidden too

[mechanism]
"""

EXAMPLES = {
    "best": """\
kind = "best"          # the least error for these categories; or generalised, unary, hashing, subset
epsilon = 1.0
""",
    "two-coins": """\
kind = "two-coins"     # heads of the first coin: the truth; else the second category ("yes") on heads of the second coin
pi1 = 0.8
pi2 = 0.5
""",
    "warner": """\
kind = "warner"        # the truth with probability p, else the opposite
p = 0.75
""",
    "sampling-privacy": """\
kind = "sampling-privacy"   # Joy and Gerla, as published: not differentially private
chances = [0.275, 0.275]    # in the order of the categories, of which the first means "none of it"; with pi_s they add up to one
pi_s = 0.45
""",
    "guarded": """\
kind = "guarded"            # the same two rounds, with noise on the published difference
chances = [0.275, 0.275]
pi_s = 0.45
epsilon = 1.0
aggregators = 2
""",
}


def starter_question(example: str = "best") -> str:
    """The text of a question file with one of the examples of a mechanism.

    >>> import tomllib
    >>> tomllib.loads(starter_question("warner"))["mechanism"]
    {'kind': 'warner', 'p': 0.75}
    """
    if example not in EXAMPLES:
        raise BadValue(f"unknown example {example!r}", hint="use one of " + ", ".join(EXAMPLES))
    return TOP + EXAMPLES[example]
