"""Selections: the public numbers of each design, and the loss they lead to. One file per kind."""

from __future__ import annotations

from .allocation import AllocationTable, ConfidentialAllocation, fixed_sizes, stratum_allocations
from .base import Bound, Losses, Selection, selection_from
from .cluster import CappedClusters, Clusters
from .collected import Collected
from .covering import Covering
from .each_stratum import EachStratum
from .further_stages import FurtherStages
from .group import Group
from .independent import Independent, crossing
from .pps import UnequalProbabilities
from .pps_cluster import PpsCluster
from .proportional import Proportional
from .random_size import RandomSize
from .simple import WithoutReplacement, WithReplacement
from .stages import Covered, Responding
from .systematic import Systematic
from .two_stage import TwoStage

__all__ = [
    "AllocationTable",
    "Bound",
    "CappedClusters",
    "Clusters",
    "Collected",
    "ConfidentialAllocation",
    "Covered",
    "Covering",
    "EachStratum",
    "FurtherStages",
    "Group",
    "Independent",
    "Losses",
    "PpsCluster",
    "Proportional",
    "RandomSize",
    "Responding",
    "Selection",
    "Systematic",
    "TwoStage",
    "UnequalProbabilities",
    "WithReplacement",
    "WithoutReplacement",
    "crossing",
    "fixed_sizes",
    "selection_from",
    "stratum_allocations",
]
