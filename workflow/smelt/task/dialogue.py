"""Rows of dialogue: conversations without what is personal, cut into pairs or longer pieces."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from smelt.data.archives import Entry
from smelt.data.cleaning import clean
from smelt.data.collection import Tally
from smelt.data.shingles import digest
from smelt.plan.settings.task import Dialogue
from smelt.task.conversations import READERS
from smelt.task.conversations.conversation import Conversation, Turn, alternating, pairs, windows

MAIL = re.compile(
    r"[^\s@]@[^\s@]+\.[^\W\d_]{2}|(?:\(at\)|\[at\])\s*[\w-]+\s*(?:\.|\(dot\)|\[dot\])\s*[^\W\d_]{2}", re.IGNORECASE
)
"""What looks like an e-mail address, also in a spelling that hides it from machines."""
PHONE = re.compile(r"(?<![\w.])(?!\d+\.\d+(?![\d.-]))(?:\+|\(?\d)(?:[ ().\u2010-\u2015/-]{0,2}\d){6,14}(?!\w)")
"""Seven to fifteen digits (the most that E.164 allows) with at most two separators between, but no decimal number. It also meets some numbers that are
none; leaving those out costs little."""

DIGIT = re.compile(r"\d")


class DialogueRow(NamedTuple):
    """A row that passed."""

    place: str
    digest: bytes
    turns: list[Turn]


class DialogueRows:
    """Reads conversations and cuts them into rows, each once."""

    def __init__(self, settings: Dialogue, tally: Tally) -> None:
        self.settings, self.tally = settings, tally
        self._seen: set[bytes] = set()

    def read(self, entry: Entry) -> Iterator[list[DialogueRow]]:
        """The rows of each conversation."""
        for conversation in READERS[self.settings.format](entry):
            if conversation.dropped:
                self.tally.drop(conversation.dropped, conversation.place)
                continue
            yield list(self._rows(conversation))

    def _rows(self, conversation: Conversation) -> Iterator[DialogueRow]:
        for stretch in self._stretches(conversation):
            turns = alternating(stretch)
            if len(turns) < 2:
                self.tally.drop("message without an answer", conversation.place)
                continue
            cut = pairs(turns) if self.settings.turns == "pairs" else windows(turns, self.settings.max_turns)
            for piece in cut:
                key = digest("\n".join(turn.text for turn in piece))
                if key in self._seen:
                    self.tally.drop("exact copy", conversation.place)
                    continue
                self._seen.add(key)
                yield DialogueRow(conversation.place, key, piece)

    def _stretches(self, conversation: Conversation) -> Iterator[list[Turn]]:
        """Runs of messages that may be kept: across a dropped one, nothing is an answer to what stood before."""
        stretch: list[Turn] = []
        for turn in conversation.turns:
            self.tally.read += 1
            cleaned = clean(turn.text, self.settings.cleaning)
            self.tally.altered.update(cleaned.altered)
            reason = cleaned.dropped or (self.settings.personal == "drop" and personal(cleaned.text)) or None
            if reason is None:
                stretch.append(Turn(turn.speaker, cleaned.text))
                continue
            self.tally.drop(f"message {reason}", conversation.place)
            if stretch:
                yield stretch
            stretch = []
        if stretch:
            yield stretch


def personal(text: str) -> str | None:
    """What looks like someone's address, in words, or None."""
    if ("@" in text or "(at)" in text.lower() or "[at]" in text.lower()) and MAIL.search(text):
        return "with an e-mail address"
    return "with a telephone number" if DIGIT.search(text) and PHONE.search(text) else None
