"""Neighbour relations: a member stands for its name everywhere, and its facts are those of the data sets."""

import itertools
import json
import math
import pickle

import pytest

import dpsurvey as ds
from dpsurvey.loss.bound import Losses
from dpsurvey.loss.worst_case.contest import neighbours_of, steps
from dpsurvey.privacy import PrivacyProfile, Relation, Setting

NAMES = ["add-remove", "replace-one", "both"]


@pytest.mark.parametrize("name", NAMES)
def test_a_member_equals_its_name_and_is_written_as_it(name):
    member = Relation.read(name)
    assert member == name
    assert {name: 1}[member] == 1
    assert (f"{member}", str(member), repr(member), json.dumps({member: [member]})) == (
        name,
        name,
        repr(name),
        json.dumps({name: [name]}),
    )
    assert pickle.loads(pickle.dumps(member)) is member
    assert Relation.read(member) is member


@pytest.mark.parametrize("word", ["", "Add-remove", "add_remove", "ADD_REMOVE", None, 1, ["both"]])
def test_any_other_word_is_refused(word):
    with pytest.raises(ds.SurveyError, match="unknown neighbour relation"):
        Relation.read(word)
    with pytest.raises(ds.SurveyError, match="unknown neighbour relation"):
        PrivacyProfile.pure(1.0, word)


def test_a_guarantee_is_for_one_of_the_two():
    with pytest.raises(ds.SurveyError, match="'both'") as refused:
        Setting("frame", neighbours="both")
    assert "use one of 'add-remove', 'replace-one'" in str(refused.value)


@pytest.mark.parametrize("relation", list(Relation))
def test_steps_are_those_of_data_sets(relation):
    assert relation.steps_to_add == steps(relation, (2, 1), (3, 1))
    assert relation.steps_to_replace == steps(relation, (2, 1), (3, 0))
    assert relation.sizes_differ is any(sum(near) != 3 for near in neighbours_of((2, 1), relation))
    losses = Losses.of(0.5, relation)
    assert (losses.add_remove, losses.replace_one) == (0.5 * relation.steps_to_add, 0.5 * relation.steps_to_replace)


def test_a_relation_includes_those_whose_neighbours_are_its_own():
    for one, other in itertools.product(Relation, repeat=2):
        near, further = (set(neighbours_of((2, 1), each)) for each in (other, one))
        assert one.includes(other) is (near <= further), (one, other)


def test_two_guarantees_hold_together_under_what_both_include():
    for one, other in itertools.product(Relation, repeat=2):
        shared = [each for each in Relation if one.includes(each) and other.includes(each)]
        widest = [each for each in shared if all(each.includes(more) for more in shared)]
        assert one.common(other) == (widest[0] if widest else None), (one, other)


@pytest.mark.parametrize("design", [ds.poisson(0.1), ds.srs(n=10, size=100), ds.cluster("c", ds.srs(n=2), clusters=9, cap=3)])
def test_a_name_and_its_member_ask_for_the_same(design):
    for base, neighbours in itertools.product(Relation, list(Relation)[:2]):
        named = ds.amplify(design, 1.0, delta=1e-6, base=base.value, neighbours=neighbours.value)
        member = ds.amplify(design, 1.0, delta=1e-6, base=base, neighbours=neighbours)
        assert named == member
        assert (type(named.base), type(named.neighbours)) == (Relation, Relation)
        assert {type(named.to_dict()[key]) for key in ("base", "neighbours")} == {str}


def test_documents_hold_plain_names():
    profile = PrivacyProfile.pure(1.0, Relation.BOTH)
    assert type(profile.to_dict()["relation"]) is str
    assert type(Setting("frame", neighbours=Relation.ADD_REMOVE).to_dict()["neighbours"]) is str
    assert type(PrivacyProfile.from_dict(profile.to_dict()).relation) is Relation
    assert math.isinf(Losses.of(1.0, "replace-one").add_remove)
