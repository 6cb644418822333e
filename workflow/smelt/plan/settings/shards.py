"""Shards: how tokens are stored."""

from typing import Annotated

from pydantic import Field

from smelt.plan.settings.base import Settings


class Shards(Settings):
    """The corpus as token ids, in LMDB files. The same shards serve every sequence length: sequences are cut while reading."""

    max_shard_bytes: Annotated[int, Field(ge=1024, le=512 * 2**20)] = 256 * 2**20
    """Largest payload of one file in bytes (2 a token up to 65,536 pieces, else 4). The writer holds it twice in memory. A document lies in one shard, so this bounds a document as well."""
