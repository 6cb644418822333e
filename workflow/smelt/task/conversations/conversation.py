"""What every format of dialogue yields, and how rows are made of it."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple


class Turn(NamedTuple):
    """What one speaker says until the other does."""

    speaker: str
    """Tells the speakers of a conversation apart; it goes into no result."""
    text: str


class Conversation(NamedTuple):
    """Turns in their order."""

    place: str
    """File and number, for messages and for the `origin` of a row."""
    turns: list[Turn]
    dropped: str | None = None
    """Why the format itself leaves it out."""


def alternating(turns: list[Turn]) -> list[Turn]:
    """Turns of one speaker that follow each other become one, with a line break between."""
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].speaker == turn.speaker:
            joined[-1] = Turn(turn.speaker, f"{joined[-1].text}\n{turn.text}")
        else:
            joined.append(turn)
    return joined


def pairs(turns: list[Turn]) -> Iterator[list[Turn]]:
    """Each turn with the one that answers it."""
    yield from map(list, itertools.pairwise(turns))


def windows(turns: list[Turn], longest: int) -> Iterator[list[Turn]]:
    """Pieces of an even number of turns, at most `longest`, one after the other: each ends with an answer."""
    longest -= longest % 2
    for start in range(0, len(turns) - 1, longest):
        piece = turns[start : start + longest]
        yield piece[: len(piece) - len(piece) % 2]
