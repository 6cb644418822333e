"""References that need no network, from the same data: the unigram model, the majority class, TF-IDF with logistic regression."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from smelt.data.tokens import TokenStream

CHUNK = 1 << 22
"""Tokens read at once."""
PENALTIES = (1.0, 4.0, 16.0)
"""Inverse regularisation strengths of the logistic regression that are tried on the validation split."""


def unigram_nats(train: TokenStream, test: TokenStream, total: int) -> float:
    """The loss of the first `total` test tokens if each is as frequent as in train, whatever stands before it.

    Add-one smoothing over the vocabulary: (count + 1) / (tokens + vocabulary).
    """
    seen = _counts(train, len(train))
    log = np.log((seen + 1) / (len(train) + train.vocab_size))
    return float(-(_counts(test, total) * log).sum())


def _counts(stream: TokenStream, total: int) -> np.ndarray:
    """[vocabulary] int64: how often each token occurs among the first `total`."""
    counts = np.zeros(stream.vocab_size, np.int64)
    for start in range(0, total, CHUNK):
        counts += np.bincount(stream.read(start, min(start + CHUNK, total)), minlength=stream.vocab_size)
    return counts


def majority(train: list[str], test: list[str]) -> list[str]:
    """The most frequent label of train (of equals the first in order) for every test text."""
    counts = Counter(train)
    return [min(counts, key=lambda label: (-counts[label], label))] * len(test)


@dataclass(frozen=True)
class Split:
    texts: list[str]
    labels: list[str]


def tfidf_logistic(train: Split, valid: Split, test: Split) -> tuple[list[str], float]:
    """Labels of the test texts by logistic regression on TF-IDF of words and word pairs, and the chosen strength.

    Words are runs of letters and digits; each Han or kana character is a word of its own, as these are written without
    spaces. The strength is the one of `PENALTIES` that does best on valid (of equals the smallest).
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # The order in which threads sum decides the last bits.
    with threadpool_limits(1):
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=WORD)
        seen, held = vectors.fit_transform(train.texts), vectors.transform(valid.texts)
        best, score, model = PENALTIES[0], -1.0, None
        for penalty in PENALTIES:
            tried = LogisticRegression(C=penalty, max_iter=1000, tol=1e-6).fit(seen, train.labels)
            accuracy = float(np.mean(tried.predict(held) == np.array(valid.labels)))
            if accuracy > score:
                best, score, model = penalty, accuracy, tried
        return model.predict(vectors.transform(test.texts)).tolist(), best


WORD = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
