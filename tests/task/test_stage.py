"""The stage task as the workflow runs it."""

import io
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from smelt.data.documents import read_documents
from smelt.plan.errors import DataError
from smelt.plan.job import execute
from smelt.plan.manifest import Manifest, canonical
from smelt.plan.settings.task import Task

SPLITS = ("train", "valid", "test")
THIRDS = {"valid": 0.25, "test": 0.25}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the workflow runs."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def sentence(rng: random.Random) -> str:
    return " ".join(f"w{rng.randrange(400)}" for _ in range(14))


def classification(path: str = "data.tsv", **more: Any) -> dict[str, Any]:
    given = {
        "kind": "classification",
        "sources": [{"kind": "file", "path": path}],
        "format": "table",
        "columns": ["id", "rating", "text"],
        "label": {"by": "rating", "column": "rating", "margin": 0.5},
        "splits": THIRDS,
    } | more
    return TypeAdapter(Task).dump_python(TypeAdapter(Task).validate_python(given), mode="json")


def dialogue(path: str = "data.jsonl", **more: Any) -> dict[str, Any]:
    given = {
        "kind": "dialogue",
        "sources": [{"kind": "file", "path": path}],
        "format": "messages",
        "splits": THIRDS,
    } | more
    return TypeAdapter(Task).dump_python(TypeAdapter(Task).validate_python(given), mode="json")


def run(results: Any, settings: dict[str, Any]) -> Manifest:
    out = results.path("task", "t", settings)
    execute("task", canonical(results.spec("task", settings, {})), out)
    return Manifest.read(out)


def rows(manifest: Manifest) -> dict[str, list[dict[str, Any]]]:
    return {split: list(read_documents(manifest.file(f"{split}.jsonl.zst"))) for split in SPLITS}


def write_table(path: Path, lines: list[tuple[float | str, str]]) -> None:
    path.write_text("".join(f"{number}\t{rating}\t{text}\n" for number, (rating, text) in enumerate(lines)))


def test_ratings_become_two_labels_and_the_margin_is_left_out(results: Any, here: Path) -> None:
    rng = random.Random(1)
    ratings = [-3.0, -0.5, -0.49, 0, 0.49, 0.5, 2.2] * 40
    texts = [sentence(rng) for _ in ratings]
    write_table(here / "data.tsv", [*zip(ratings, texts, strict=True)])
    manifest = run(results, classification())
    found = {row["text"]: row["label"] for kept in rows(manifest).values() for row in kept}
    by_hand = {-3.0: "negative", -0.5: "negative", 0.5: "positive", 2.2: "positive"}
    assert found == {text: by_hand[rating] for rating, text in zip(ratings, texts, strict=True) if rating in by_hand}
    assert manifest.facts["dropped"] == {"rating within 0.5 of 0": 120}
    assert manifest.facts["labels"] == ["negative", "positive"]
    assert manifest.facts["kind"] == "classification"
    assert manifest.facts["rows"] == {split: len(kept) for split, kept in rows(manifest).items()}


def test_copies_are_kept_once_and_those_that_disagree_not_at_all(results: Any, here: Path) -> None:
    rng = random.Random(1)
    plain = [(rng.choice([-2, 2]), sentence(rng)) for _ in range(80)]
    write_table(
        here / "data.tsv",
        [*plain, (2, "The same text."), (-2, "the same  text."), (2, "The same text."), (1, "Twice"), (3, "twice")],
    )
    manifest = run(results, classification())
    texts = [row["text"] for kept in rows(manifest).values() for row in kept]
    assert sorted(texts) == sorted([text for _, text in plain] + ["Twice"])
    assert manifest.facts["dropped"] == {"copies with different labels": 2, "exact copy": 2}


def test_near_copies_do_not_leak_into_test(results: Any, here: Path) -> None:
    rng = random.Random(2)
    lines: list[tuple[float | str, str]] = []
    for _ in range(120):
        words = sentence(rng).split()
        for _ in range(2):
            lines.append(
                (2 if len(lines) % 4 < 2 else -2, " ".join([*words[:6], f"changed{rng.randrange(10**9)}", *words[7:]]))
            )
    write_table(here / "data.tsv", lines)
    places = {row["text"]: split for split, kept in rows(run(results, classification())).items() for row in kept}
    texts = [text for _, text in lines]
    assert all(places[one] == places[other] for one, other in zip(texts[::2], texts[1::2], strict=True))


def test_max_rows_draws_at_random_and_the_same_each_time(results: Any, here: Path) -> None:
    rng = random.Random(3)
    write_table(here / "data.tsv", [(rng.choice([-2, 2]), sentence(rng)) for _ in range(600)])
    manifests = [run(results, classification(max_rows=200, seed=seed)) for seed in (1, 1, 2)]
    drawn = [{row["id"] for kept in rows(manifest).values() for row in kept} for manifest in manifests]
    assert [len(each) for each in drawn] == [200, 200, 200]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    assert manifests[0].path.read_bytes() == manifests[1].path.read_bytes()


def test_labels_in_a_column_are_renamed_or_chosen(results: Any, here: Path) -> None:
    rng = random.Random(4)
    given = [rng.choice(["0", "1", "neutral", ""]) for _ in range(200)]
    data = "text,y\n" + "".join(f'"{sentence(rng)}, yes",{label}\n' for label in given)
    (here / "data.csv").write_text(data)
    more = {
        "columns": None,
        "delimiter": ",",
        "quotes": True,
        "label": {"by": "column", "column": "y", "names": {"0": "bad", "1": "good"}},
    }
    manifest = run(results, classification("data.csv", **more))
    assert manifest.facts["labels"] == ["bad", "good"]
    assert sum(manifest.facts["rows"].values()) == given.count("0") + given.count("1")
    assert manifest.facts["dropped"] == {
        "label not in label.names": given.count("neutral"),
        "no label": given.count(""),
    }


def test_labels_follow_from_the_files_of_an_archive(results: Any, here: Path) -> None:
    rng = random.Random(5)
    with tarfile.open(here / "data.tar.gz", "w:gz") as archive:
        for number in range(120):
            info = tarfile.TarInfo(f"set/{('pos', 'neg')[number % 2]}/{number}.txt")
            data = sentence(rng).encode()
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    source = {"kind": "file", "path": "data.tar.gz", "member": "set/*/*.txt"}
    label = {"by": "file", "names": {"*/pos/*": "positive", "*/neg/*": "negative"}}
    manifest = run(results, classification(sources=[source], format="text", columns=None, label=label))
    assert sum(manifest.facts["rows"].values()) == 120
    assert all(
        row["label"] == ("positive" if "/pos/" in row["origin"] else "negative")
        for kept in rows(manifest).values()
        for row in kept
    )
    label = {"by": "file", "names": {"*/pos/*": "positive"}}
    with pytest.raises(DataError, match=r"set/neg/1.txt: none of the globs '\*/pos/\*' fits this file"):
        run(results, classification(sources=[source], format="text", columns=None, label=label))


BAD = {
    "no number": ([("good", "x y z")], {}, r"data.tsv:1: 'rating' is 'good' and no number"),
    "nan": ([("nan", "x y z")], {}, r"data.tsv:1: 'rating' is 'nan' and no number"),
    "too few columns": (
        [],
        {"columns": ["id", "rating", "text", "more"]},
        "data.tsv:1: 3 columns, not the 4 of id, rating, text, more",
    ),
    "nothing passes": ([(0, "x"), (0.1, "y")], {}, "no rows are left: 2 were read, 2 rating within 0.5 of 0"),
    "one row": ([(2, "just one")], {}, "came out empty"),
    "a single label": (
        [(2, f"only good things here {number}") for number in range(40)],
        {"deduplication": {"near": "ignore"}},
        "but one label, 'positive'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_one_clear_error(results: Any, here: Path, case: str) -> None:
    lines, change, message = BAD[case]
    write_table(here / "data.tsv", lines or [(2, "x y")])
    with pytest.raises(DataError, match=message):
        run(results, classification(**change))


def test_a_label_that_train_lacks_is_told_with_the_counts(results: Any, here: Path) -> None:
    rng = random.Random(6)
    label = {"by": "column", "column": "rating"}
    for _ in range(20):
        # Until the one row of the rare label falls into a held-out split.
        write_table(here / "data.tsv", [("common", sentence(rng)) for _ in range(60)] + [("rare", sentence(rng))])
        try:
            manifest = run(results, classification(label=label))
            assert manifest.facts["rows by label"]["train"]["rare"] == 1
        except DataError as error:
            assert "label 'rare' is in" in str(error)
            assert "not in train, which has 'common'" in str(error)
            assert "take another seed" in str(error)
            return
    pytest.fail("the rare row came to train 20 times, at a chance of one half each")


def talk(*said: str) -> dict[str, Any]:
    return {"messages": [{"role": ("user", "assistant")[turn % 2], "content": text} for turn, text in enumerate(said)]}


def write_talks(path: Path, talks: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in talks))


def test_pairs_come_without_what_is_personal_and_are_never_joined_across_it(results: Any, here: Path) -> None:
    rng = random.Random(7)
    others = [talk(sentence(rng), sentence(rng)) for _ in range(60)]
    private = talk(
        "How do I reach you today?",
        "jane@example.org",
        "thank you so much for that",
        "you are welcome, my friend",
        " ",
        "well, then goodbye to you",
    )
    write_talks(here / "data.jsonl", [private, *others])
    manifest = run(results, dialogue())
    kept = [row for each in rows(manifest).values() for row in each]
    assert len(kept) == 61
    ours = [row["messages"] for row in kept if row["origin"] == "data.jsonl:1"]
    assert ours == [
        [
            {"role": "user", "content": "thank you so much for that"},
            {"role": "assistant", "content": "you are welcome, my friend"},
        ]
    ]
    assert manifest.facts["dropped"] == {
        "message empty": 1,
        "message with an e-mail address": 1,
        "message without an answer": 2,
    }
    assert manifest.facts["kind"] == "dialogue"
    assert manifest.facts["labels"] == []


def test_conversations_are_cut_and_no_conversation_straddles_splits(results: Any, here: Path) -> None:
    rng = random.Random(8)
    write_talks(here / "data.jsonl", [talk(*(sentence(rng) for _ in range(9))) for _ in range(80)])
    kept = rows(run(results, dialogue(turns="conversation", max_turns=4)))
    places: dict[str, set[str]] = {}
    for split, each in kept.items():
        for row in each:
            places.setdefault(row["origin"], set()).add(split)
            assert [message["role"] for message in row["messages"]] == ["user", "assistant"] * 2
    assert len(places) == 80
    assert all(len(splits) == 1 for splits in places.values())
    assert sum(map(len, kept.values())) == 160


def test_near_copies_of_pairs_are_dropped(results: Any, here: Path) -> None:
    rng = random.Random(9)
    talks = [talk(sentence(rng), sentence(rng)) for _ in range(80)]
    copies = [talk(each["messages"][0]["content"] + " really", each["messages"][1]["content"]) for each in talks]
    write_talks(here / "data.jsonl", talks + copies)
    manifest = run(results, dialogue())
    assert manifest.facts["dropped"] == {"near copy": 80}
    assert {row["origin"] for each in rows(manifest).values() for row in each} == {
        f"data.jsonl:{number}" for number in range(1, 81)
    }


def test_ids_and_times_of_chitchat_reach_no_file(results: Any, here: Path) -> None:
    rng = random.Random(10)

    def message(sender: str) -> dict[str, str]:
        return {"text": sentence(rng), "timestamp": "2018-05-02T19:38:15Z", "sender": f"sender-{sender}"}

    talks = {
        f"id-{number}": {
            "messages": [[message("a")], [message("b"), message("b")], [message("a")]],
            "start": "2018-05-02",
        }
        for number in range(60)
    }
    (here / "data.json").write_text(json.dumps(talks))
    manifest = run(results, dialogue("data.json", format="chitchat"))
    everything = json.dumps(rows(manifest)) + manifest.file("card.json").read_text() + manifest.path.read_text()
    assert sum(manifest.facts["rows"].values()) == 120
    for secret in ("sender-", "id-", "2018-05"):
        assert secret not in everything


def test_real_labelled_data(results: Any, here: Path, shared_data: Path) -> None:
    source = {
        "kind": "file",
        "path": str(shared_data / "imdb-sample" / "aclImdb_sample.tar.gz"),
        "member": "aclImdb/train/*/*.txt",
    }
    label = {"by": "file", "names": {"*/pos/*": "positive", "*/neg/*": "negative"}}
    manifest = run(
        results,
        classification(sources=[source], format="text", columns=None, label=label, splits={"valid": 0.1, "test": 0.1}),
    )
    counts = {
        name: sum(split.get(name, 0) for split in manifest.facts["rows by label"].values())
        for name in ("positive", "negative")
    }
    # The slice has 499 positive and 500 negative reviews; exact copies are counted.
    assert sum(counts.values()) + sum(manifest.facts["dropped"].values()) == 999
    assert counts["positive"] <= 499
    assert counts["negative"] <= 500


def test_real_dialogue(results: Any, here: Path, shared_data: Path) -> None:
    manifest = run(results, dialogue(str(shared_data / "chatterbot-corpus" / "english"), format="chatterbot"))
    kept = [row for each in rows(manifest).values() for row in each]
    assert len(kept) > 500
    assert all(
        len(row["messages"]) == 2 and all(message["content"].strip() for message in row["messages"]) for row in kept
    )
