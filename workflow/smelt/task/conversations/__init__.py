"""Formats of dialogue: name in the settings → reader. A format is one function in one file, and one line here."""

from collections.abc import Callable, Iterator

from smelt.data.archives import Entry
from smelt.task.conversations import chatterbot, chitchat, messages
from smelt.task.conversations.conversation import Conversation

READERS: dict[str, Callable[[Entry], Iterator[Conversation]]] = {
    "chitchat": chitchat.read,
    "chatterbot": chatterbot.read,
    "messages": messages.read,
}
"""A reader gets a file and yields conversations. It raises DataError naming the place."""
