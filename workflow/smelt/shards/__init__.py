"""Stage shards: tokenise documents into LMDB shards."""
