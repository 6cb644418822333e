"""Scores of predicted labels: accuracy with its interval, macro-F1, the confusion matrix."""

import math
from typing import Any

import numpy as np

from smelt.plan.job import figure


def confusion(labels: list[str], true: list[str], predicted: list[str]) -> np.ndarray:
    """[true, predicted] int64 counts, in the order of `labels`."""
    position = {label: index for index, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)), np.int64)
    for row, column in zip(true, predicted, strict=True):
        matrix[position[row], position[column]] += 1
    return matrix


def macro_f1(matrix: np.ndarray) -> float:
    """The mean over labels of 2 · hits / (true + predicted); 0 for a label that neither occurs nor is predicted."""
    hits, either = np.diag(matrix), matrix.sum(axis=0) + matrix.sum(axis=1)
    return float(np.mean(2 * hits / np.maximum(either, 1)))


def wilson(hits: int, total: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson 1927, doi:10.1080/01621459.1927.10502953)."""
    share = hits / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)


def label_figures(matrix: np.ndarray, **more: str) -> list[dict[str, Any]]:
    hits, total = int(np.trace(matrix)), int(matrix.sum())
    interval = list(wilson(hits, total))
    return [
        figure("accuracy", "test", hits / total, "", interval=interval, **more),
        figure("macro_f1", "test", macro_f1(matrix), "", **more),
    ]
