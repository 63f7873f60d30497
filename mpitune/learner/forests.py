"""The forests of a shard's sentences, decoded in one epoch, and the references of these sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mpitune.array_files.csr import row_ends
from mpitune.decoder.base import PackedForest


class Forests(NamedTuple):
    """The arrays of `PackedForest`, sentence by sentence in shard order.

    Nodes and rules are numbered from 0 in each sentence. Targets and references number words alike; a learner does not
    need the words themselves.
    """

    node_ptr: np.ndarray
    """int64 [sentences + 1]: nodes of a sentence; the last is its goal."""
    rule_ptr: np.ndarray
    """int64 [sentences + 1]: rules of a sentence."""
    edge_ptr: np.ndarray
    """int64 [nodes + 1]: edges of a node."""
    edge_tail: np.ndarray
    """int32 [edges, 2]: nodes, or -1."""
    edge_rule: np.ndarray
    """int32 [edges]"""
    edge_lm: np.ndarray
    """float32 [edges, LMs]: values of the LMs' features."""
    target_ptr: np.ndarray
    """int64 [rules + 1]: target sides."""
    target: np.ndarray
    """int32: word >= 0, first gap -1, second gap -2."""
    feature_ptr: np.ndarray
    """int64 [rules + 1]: rows of the rules' features (CSR)."""
    feature: np.ndarray
    """int32: positions in ``feature_id``."""
    value: np.ndarray
    """float64: values of these features."""
    lm_feature: np.ndarray
    """int32 [LMs]: positions of the LMs' features in ``feature_id``."""
    feature_id: np.ndarray
    """uint64 [features], ascending: all features that occur."""
    reference_ptr: np.ndarray
    """int64 [sentences + 1]: references of a sentence."""
    word_ptr: np.ndarray
    """int64 [references + 1]: words of a reference."""
    word: np.ndarray
    """int32"""

    @property
    def sentences(self) -> int:
        """Number of forests."""
        return len(self.node_ptr) - 1

    def references(self, s: int) -> list[np.ndarray]:
        """int32 [words] each: the references of sentence ``s``."""
        ptr = self.word_ptr[self.reference_ptr[s] : self.reference_ptr[s + 1] + 1].tolist()
        return [self.word[a:b] for a, b in zip(ptr[:-1], ptr[1:], strict=True)]


def forests_of(forests: Sequence[PackedForest], references: Sequence[Sequence[np.ndarray]], ids: np.ndarray) -> Forests:
    """``forests`` with each sentence's references (int32 [words] each); ``ids``: uint64, feature ids by slot."""
    lm_slot = forests[0].lm_slot if forests else np.zeros(0, dtype=np.int32)
    slot = np.concatenate([lm_slot, *(forest.feature_index for forest in forests)])
    feature_id, feature = np.unique(ids[slot], return_inverse=True)
    feature = feature.astype(np.int32)
    edge_lm = [forest.edge_lm for forest in forests]
    texts = [reference for each in references for reference in each]
    return Forests(
        node_ptr=row_ends([len(forest.edge_ptr) - 1 for forest in forests]),
        rule_ptr=row_ends([len(forest.target_ptr) - 1 for forest in forests]),
        edge_ptr=_ends_of_all([forest.edge_ptr for forest in forests]),
        edge_tail=np.concatenate([np.zeros((0, 2), dtype=np.int32), *(forest.edge_tail for forest in forests)]),
        edge_rule=_joined([forest.edge_rule for forest in forests]),
        edge_lm=np.concatenate(edge_lm) if forests else np.zeros((0, 0), dtype=np.float32),
        target_ptr=_ends_of_all([forest.target_ptr for forest in forests]),
        target=_joined([forest.target for forest in forests]),
        feature_ptr=_ends_of_all([forest.feature_ptr for forest in forests]),
        feature=feature[len(lm_slot) :],
        value=np.concatenate([np.zeros(0), *(forest.feature_value for forest in forests)]),
        lm_feature=feature[: len(lm_slot)],
        feature_id=feature_id,
        reference_ptr=row_ends([len(each) for each in references]),
        word_ptr=row_ends([len(text) for text in texts]),
        word=_joined(texts),
    )


def _ends_of_all(ptrs: Sequence[np.ndarray]) -> np.ndarray:
    """int64: the row pointers of concatenated CSR arrays, from the row pointers of each."""
    return row_ends(np.concatenate([np.zeros(0, dtype=np.int64), *(np.diff(ptr) for ptr in ptrs)]))


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=np.int32), *parts])
