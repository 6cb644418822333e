"""Formats of dialogue, and how conversations become rows."""

import io
import json
from typing import Any

import pytest

from smelt.data.archives import Entry
from smelt.plan.errors import DataError
from smelt.task.conversations import READERS
from smelt.task.conversations.conversation import Turn, alternating, pairs, windows
from smelt.task.dialogue import personal


def read(format: str, data: str) -> list[tuple[list[tuple[str, str]], str | None]]:
    entry = Entry("file", "archive → file", io.BytesIO(data.encode()))
    return [([tuple(turn) for turn in talk.turns], talk.dropped) for talk in READERS[format](entry)]


def chitchat(*talks: list[list[tuple[str, str]]]) -> str:
    def message(sender: str, text: str) -> dict[str, str]:
        return {"text": text, "sender": sender, "timestamp": "2018-05-02T19:38:15Z"}

    return json.dumps(
        {
            f"id-{n}": {"messages": [[message(*said) for said in turn] for turn in talk], "start": "x"}
            for n, talk in enumerate(talks)
        }
    )


def test_chitchat_keeps_texts_and_who_differs_from_whom() -> None:
    data = chitchat([[("u1", "Hello"), ("u1", "How are you?")], [("u2", "fine")]], [])
    assert read("chitchat", data) == [([("u1", "Hello"), ("u1", "How are you?"), ("u2", "fine")], None), ([], None)]


def test_chatterbot_takes_turns_and_reads_every_scalar_as_text() -> None:
    data = """
categories: [x]
conversations:
- - Do you like it?
  - yes
- - How many?
  - 42
  - 'Note: quoted'
- - It is: unquoted
  - null
- a sentence that lost its list
- - [nested]
"""
    assert read("chatterbot", data) == [
        ([("0", "Do you like it?"), ("1", "yes")], None),
        ([("0", "How many?"), ("1", "42"), ("0", "Note: quoted")], None),
        ([("0", "It is: unquoted"), ("1", "null")], None),
        ([], "conversation that is no list of texts"),
        ([], "conversation that is no list of texts"),
    ]


def test_messages_begin_with_the_user() -> None:
    rows = [[("assistant", "Welcome"), ("user", "Hi"), ("assistant", "Hello")], [("user", "Bye"), ("assistant", "Bye")]]
    data = "\n".join(json.dumps({"messages": [{"role": role, "content": text} for role, text in row]}) for row in rows)
    assert [turns for turns, _ in read("messages", data)] == [rows[0][1:], rows[1]]


@pytest.mark.parametrize(
    ("format", "data", "what"),
    [
        ("chitchat", "[]", "JSON list, not the object of conversations"),
        (
            "chitchat",
            '{"a": {"messages": [[{"text": "x"}]]}}',
            r"file#1: no conversation of chitchat_dataset \(KeyError\('sender'\)",
        ),
        ("chitchat", '{"a": {"messages": [[{"text": 1, "sender": "u"}]]}}', "file#1: a sender or a message is no text"),
        ("chitchat", "{", "file:1: not JSON"),
        ("chatterbot", "a: [", "archive → file: not YAML"),
        ("chatterbot", "categories: []", "has no list `conversations`"),
        ("chatterbot", "- !!python/object/apply:os.getcwd []", "has no list `conversations`"),
        ("messages", '{"text": "x"}', "file:1: has no list `messages`"),
        (
            "messages",
            '{"messages": [{"role": "system", "content": "x"}]}',
            "file:1: .* is no message with a role of user or assistant",
        ),
        ("messages", '{"messages": [{"role": "user", "content": null}]}', "is no message"),
    ],
)
def test_what_is_not_in_the_format_is_told_with_its_place(format: str, data: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        read(format, data)


def turns(*said: str) -> list[Turn]:
    return [Turn(each[0], each[2:]) for each in said]


def test_turns_of_one_speaker_are_joined() -> None:
    assert alternating(turns("a hi", "a there", "b hello", "a bye")) == [
        Turn("a", "hi\nthere"),
        Turn("b", "hello"),
        Turn("a", "bye"),
    ]


def test_pairs_are_each_turn_with_its_answer() -> None:
    assert [[turn.text for turn in pair] for pair in pairs(turns("a 1", "b 2", "a 3"))] == [["1", "2"], ["2", "3"]]


@pytest.mark.parametrize(
    ("count", "longest", "expected"),
    [
        (2, 8, [[0, 1]]),
        (5, 8, [[0, 1, 2, 3]]),
        (9, 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (7, 5, [[0, 1, 2, 3], [4, 5]]),
        (1, 2, []),
    ],
)
def test_longer_pieces_end_with_an_answer(count: int, longest: int, expected: list[list[int]]) -> None:
    said = [Turn("ab"[number % 2], str(number)) for number in range(count)]
    assert [[int(turn.text) for turn in piece] for piece in windows(said, longest)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "write to jane.doe@example.org now",
        "JANE@EXAMPLE.CO.UK",
        "me (at) example (dot) org",
        "x_y+z@sub.domain.info!",
        "姓名@例子.中国",
    ],
)
def test_what_looks_like_an_email_address_is_seen(text: str) -> None:
    assert personal(text) == "with an e-mail address"


@pytest.mark.parametrize(
    "text",
    [
        "call (808) 555-0199",
        "+49 30 123456 7",
        "555-0199-123",
        "my number is 8085550199.",
        "+1.808.555.0199",
        "电话 138 0013 8000",
    ],
)
def test_what_looks_like_a_telephone_number_is_seen(text: str) -> None:
    assert personal(text) == "with a telephone number"


@pytest.mark.parametrize(
    "text",
    [
        "I got an A @ school",
        "meet @ 5.30",
        "1990s",
        "in 2014",
        "3.14159265358979",
        "1, 2, 3",
        "100,000 people",
        "it cost $12.50",
        "look (at) this",
        "10 to 20",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert personal(text) is None


def test_every_reader_is_told_by_its_name() -> None:
    known: dict[str, Any] = READERS
    assert set(known) == {"chitchat", "chatterbot", "messages"}
