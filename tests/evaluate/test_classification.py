"""Scores of labels against scikit-learn and published values; references that can be told in advance."""

import json

import numpy as np
import pytest

import tiny
from smelt.data.documents import read_documents
from smelt.evaluate.references import Split, majority, tfidf_logistic
from smelt.evaluate.scores import confusion, macro_f1, wilson
from smelt.plan.errors import DataError

SETTINGS = {"num_train_epochs": 2, "train_batch_size": 16, "learning_rate": 5e-3}


def value(node, metric, reference=None):
    (found,) = [f for f in node.facts["figures"] if f["metric"] == metric and f.get("reference") == reference]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_accuracy_f1_and_confusion_are_those_of_scikit_learn(seed):
    from sklearn.metrics import confusion_matrix, f1_score

    rng = np.random.default_rng(seed)
    labels = ["a", "b", "c", "d"]
    # "d" never occurs in some of these, and some labels are never predicted.
    true = rng.choice(labels[: 2 + seed % 3], 30).tolist()
    predicted = rng.choice(labels[: 3 + seed % 2], 30).tolist()
    matrix = confusion(labels, true, predicted)
    assert (matrix == confusion_matrix(true, predicted, labels=labels)).all()
    expected = f1_score(true, predicted, labels=labels, average="macro", zero_division=0)
    assert macro_f1(matrix) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3 (score, no continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_of_accuracy_is_the_published_one(hits, total, low, high):
    assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)


def test_the_majority_is_that_of_train_and_ties_do_not_depend_on_order():
    assert majority(["b", "a", "b"], ["a", "a"]) == ["b", "b"]
    assert majority(["b", "a"], ["x"]) == majority(["a", "b"], ["x"]) == ["a"]


@pytest.mark.parametrize("words", [("good", "bad"), ("好", "坏")])
def test_the_linear_reference_finds_a_word_that_decides_in_any_script(words):
    def split(count, seed):
        rng = np.random.default_rng(seed)
        space = " " if words[0].isascii() else ""
        filler = ["it", "was", "so"] if space else ["我", "看", "了"]
        texts, labels = [], []
        for i in range(count):
            parts = rng.permutation([words[i % 2], *rng.choice(filler, 5)])
            texts.append(space.join(parts))
            labels.append(str(i % 2))
        return Split(texts, labels)

    found, strength = tfidf_logistic(split(80, 1), split(20, 2), split(40, 3))
    assert found == split(40, 3).labels
    assert strength == 1.0


@pytest.fixture(scope="module")
def results(session_results):
    return type(session_results)(session_results.root / "labels")


@pytest.fixture(scope="module")
def upstream(results):
    convert, task = tiny.converted(results.root), tiny.labelled(results.root)
    finetune = results.run("finetune", "tune", SETTINGS, convert=convert, task=task)
    return {"convert": convert, "task": task, "finetune": finetune}


def test_figures_are_those_of_the_stored_predictions(results, upstream):
    node = results.run("evaluate", "labels", {}, **upstream)
    rows = list(read_documents(node.file("predictions.jsonl.zst")))
    truth = {row["id"]: row["label"] for row in read_documents(upstream["task"].file("test.jsonl.zst"))}
    assert [row["label"] for row in rows] == [truth[row["id"]] for row in rows] and len(rows) == len(truth)
    right = sum(row["label"] == row["predicted"] for row in rows)
    accuracy = value(node, "accuracy")
    assert accuracy["value"] == right / len(rows) > 0.8
    assert accuracy["interval"] == pytest.approx(wilson(right, len(rows)))
    for row in rows:
        assert sum(row["probabilities"]) == pytest.approx(1, abs=1e-5)
        assert node.facts["confusion"]["labels"][int(np.argmax(row["probabilities"]))] == row["predicted"]
    matrix = np.array(node.facts["confusion"]["matrix"])
    assert matrix.sum() == len(rows) and np.trace(matrix) == right
    assert json.loads(node.file("metrics.json").read_text()) == node.facts


def test_references_stand_beside_the_model(results, upstream):
    node = results.run("evaluate", "labels", {}, **upstream)
    assert value(node, "accuracy", "majority class")["value"] == 0.5
    assert value(node, "accuracy", "TF-IDF + logistic regression")["value"] > 0.95


def test_the_network_from_random_weights_is_itself_a_reference(results, upstream):
    given = {"convert": upstream["convert"], "task": upstream["task"]}
    scratch = results.run("finetune", "tune-scratch", {**SETTINGS, "init": "random"}, **given)
    node = results.run("evaluate", "labels-scratch", {}, **given, finetune=scratch)
    assert node.facts["init"] == "random"
    assert {f.get("reference") for f in node.facts["figures"]} == {None}


def test_adapters_are_measured_on_their_base(results, upstream):
    valid = list(read_documents(upstream["task"].file("valid.jsonl.zst")))
    given = {"convert": upstream["convert"], "task": tiny.labelled(results.root, label="twice", test=valid)}
    tuned = results.run("finetune", "lora", {**SETTINGS, "method": "lora", "learning_rate": 2e-2}, **given)
    node = results.run("evaluate", "lora", {"references": False}, **given, finetune=tuned)
    # Adapters or a head that were lost on the way would not give the accuracy that the training saw.
    seen = {f["metric"]: f["value"] for f in tuned.facts["figures"]}["accuracy"]
    assert value(node, "accuracy")["value"] == seen != 0.5


def test_predictions_do_not_depend_on_the_batch(results, upstream):
    one, many = (
        results.run("evaluate", "labels", {"eval_batch_size": size, "references": False}, **upstream)
        for size in (1, 64)
    )
    for left, right in zip(*(read_documents(node.file("predictions.jsonl.zst")) for node in (one, many)), strict=True):
        assert left["predicted"] == right["predicted"]
        assert left["probabilities"] == pytest.approx(right["probabilities"], abs=2e-6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the test split has no row"),
        (
            [{"id": "t-1", "text": "so so", "label": "mixed"}],
            "row 't-1' has the label 'mixed', which the training split lacks",
        ),
    ],
)
def test_a_test_split_that_cannot_be_measured_is_refused(results, upstream, rows, message):
    task = tiny.labelled(results.root, label=f"odd-{len(rows)}", test=rows)
    with pytest.raises(DataError, match=message):
        results.run("evaluate", "labels", {}, **{**upstream, "task": task})
